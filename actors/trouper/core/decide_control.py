"""The rules for what people ask of a run beside its task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from trouper.core import wording
from trouper.core.control import Sleep
from trouper.core.effects import Effect
from trouper.core.state import Action, RunState
from trouper.core.steps import Close, Doubt, Expire, FireTimer, Hear, PassDeadline, PauseChild, Refuse, Step


def deadline(state: RunState) -> tuple[Step, ...]:
    """The alarm of a run that has a deadline."""
    return () if state.control.deadline is None else (PassDeadline(state.control.deadline),)


def preempted(steps: list[Step]) -> list[Step]:
    """Of steps that are all due, those to take: where the run's time is up, nothing else may begin first.

    Of two such alarms the first is taken alone: by that the other may not be due any more.
    """
    alarms = (step for step in steps if isinstance(step, PassDeadline | Refuse) and step.not_before is not None)
    first = next(alarms, None)
    return steps if first is None else [first]


def overtaken(before: RunState, after: RunState) -> bool:
    """Whether a step that was taken may have overtaken others that were named with it: something was said, or refused.

    What is said is to be seen by hooks before the model sees it, and what is refused to one is refused to others.
    """
    return after.chain != before.chain or after.budget.refused is not before.budget.refused


# What a paused run does all the same: what was under way comes to its end, and nothing begins by any of it.
_IN_A_PAUSE = (Expire, Close, Doubt)


def hears(state: RunState) -> tuple[Step, ...]:
    """Between batches: take in what was sent to the run; empty where there is nothing, or nobody to answer it."""
    # The answer to a run's closing request is its last word: another request would go beyond the limit.
    if not state.control.inbox or state.closing:
        return ()
    return (Hear(state.control.inbox[-1].version),)


def held_back(state: RunState, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """What is left of the steps while the run is paused; all of them where it is not."""
    if state.control.pause is None:
        return (*_passed_on(state, paused=False), *steps)
    return (*_passed_on(state, paused=True), *(step for step in steps if isinstance(step, _IN_A_PAUSE)))


def _passed_on(state: RunState, *, paused: bool) -> Iterator[Step]:
    """What is still to be said to the runs that calls began."""
    for action in state.batch:
        child = action.child
        if child is not None and child.paused is not paused and not child.ended and not child.cancelled:
            yield PauseChild(action.action, child.run, paused)


def sleeping(action: Action, sleep: Sleep) -> Step:
    """What must happen to a call whose tool has set a timer."""
    if sleep.told is None:
        return FireTimer(action.action, action.attempt, sleep.until)
    text = sleep.told if action.original is None else wording.edited(action, sleep.told)
    return Close(action.action, action.attempt, "ok", "timer", text)


def cut_short(state: RunState, action: Action, sleep: Sleep) -> Step:
    """What must happen to such a call so that its run can end: its tool has done its part, if it was to do anything."""
    if sleep.told is not None:
        return sleeping(action, sleep)
    outcome: Literal["ok", "error"] = "error" if action.effect is Effect.READ_ONLY else "ok"
    return Close(action.action, action.attempt, outcome, "timer", wording.cut_short(action, state))
