"""The fold of what people ask of a run beside its task."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from trouper.core import control_events as ev
from trouper.core.control import NO_CONTROL, Control, Pause, Signal, Sleep
from trouper.core.conversation import Human, System
from trouper.core.evolve_actions import change_action
from trouper.core.folding import advanced, changed, say
from trouper.core.state import Action, Phase, RunPhase, RunState, known
from trouper_journal import Erased


def _signalled(state: RunState, event: ev.RunSignalled) -> RunState:
    if state.ended:
        return advanced(state)
    version = state.version + 1
    # Anyone may append: what only a model or a tool can say would make the history invalid for the wire.
    said = [message for message in known(event.messages, ()) if isinstance(message, Human | System)]
    messages = tuple(
        attrs.evolve(message, id=f"{state.run}/signal-{version}.{number}") for number, message in enumerate(said)
    )
    signal = Signal(version, messages, known(event.by, None))
    control = attrs.evolve(state.control, inbox=(*state.control.inbox, signal))
    return advanced(state, control=control, erased=state.erased or isinstance(event.messages, Erased))


def _heard(state: RunState, event: ev.RunHeard) -> RunState:
    inbox = state.control.inbox
    heard = tuple(message for signal in inbox if signal.version <= event.through for message in signal.messages)
    rest = tuple(signal for signal in inbox if signal.version > event.through)
    messages, chain = say(state, heard)
    return advanced(state, messages=messages, chain=chain, control=attrs.evolve(state.control, inbox=rest))


def _pause_requested(state: RunState, event: ev.PauseRequested) -> RunState:
    if state.ended or state.stopping or state.control.pause is not None:
        return advanced(state)
    pause = Pause(known(event.by, None), known(event.reason, None))
    state = _told(state, event.below, paused=True)
    return advanced(state, control=attrs.evolve(state.control, pause=pause))


def _told(state: RunState, runs: tuple[str, ...], *, paused: bool) -> RunState:
    """The state in which these runs that calls began have been told to pause, or to go on."""
    if not runs:
        return state
    batch = tuple(
        changed(action, child=attrs.evolve(action.child, paused=paused))
        if action.child is not None and action.child.run in runs
        else action
        for action in state.batch
    )
    return changed(state, batch=batch)


def unpaused(state: RunState, below: tuple[str, ...]) -> RunState:
    """The state without its pause, and with these runs below it told of that."""
    if state.control.pause is None:
        return state
    state = _told(state, below, paused=False)
    return changed(state, control=attrs.evolve(state.control, pause=None))


def asked(start_at: int | None, deadline: int | None) -> Control:
    """What was asked for with the task."""
    return NO_CONTROL if start_at is None and deadline is None else Control(start_at=start_at, deadline=deadline)


def revived(state: RunState) -> RunState:
    """A failed run as it goes on: attempts at its request that were made before no longer count."""
    call = state.model
    if call is not None:
        call = attrs.evolve(call, phase="lost", retry_at=None, spent=call.attempt)
    phase = RunPhase.RUNNING if state.started else RunPhase.SUBMITTED
    return changed(state, phase=phase, failure=None, failure_message="", truncations=0, model=call, halt=None)


def _deadline_passed(state: RunState, _event: ev.DeadlinePassed) -> RunState:
    return advanced(state, control=attrs.evolve(state.control, overdue=True))


def _deadline_extended(state: RunState, event: ev.DeadlineExtended) -> RunState:
    if state.handed_on:
        return advanced(state)
    control = attrs.evolve(state.control, deadline=event.deadline, overdue=False)
    if state.phase is RunPhase.FAILED and state.failure == "deadline":
        state = revived(state)
    return advanced(state, control=control)


def _timer_set(state: RunState, event: ev.TimerSet) -> RunState:
    sleep = Sleep(event.until, known(event.text, ""))
    return change_action(state, event.action, lambda action: changed(action, phase=Phase.SLEEPING, sleep=sleep))


def _timer_fired(state: RunState, event: ev.TimerFired) -> RunState:
    def wake(action: Action) -> Action:
        sleep = action.sleep
        return action if sleep is None else changed(action, sleep=attrs.evolve(sleep, told=known(event.text, "")))

    return change_action(state, event.action, wake)


def _child_pause_requested(state: RunState, event: ev.ChildPauseRequested) -> RunState:
    def pass_on(action: Action) -> Action:
        child = action.child
        if child is None or child.run != event.run:
            return action
        return changed(action, child=attrs.evolve(child, paused=event.paused))

    return change_action(state, event.action, pass_on)


CONTROL_STEPS: dict[type, Callable[..., RunState]] = {
    ev.RunSignalled: _signalled,
    ev.RunHeard: _heard,
    ev.PauseRequested: _pause_requested,
    ev.ChildPauseRequested: _child_pause_requested,
    ev.TimerSet: _timer_set,
    ev.TimerFired: _timer_fired,
    ev.DeadlinePassed: _deadline_passed,
    ev.DeadlineExtended: _deadline_extended,
}
