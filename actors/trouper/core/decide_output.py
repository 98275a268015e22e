"""The rules for a run's answer: when it is looked at, when it ends the run, and when the model must try again.

1. Whatever a reply calls is carried out first, whatever else the reply says. A ``final_result`` beside other calls is
   looked at when all of them are over, and only if all of them succeeded; else it is handed back, and the model sees
   what failed. Text beside calls is never the final output.
2. A refusal ends the run, and nothing that stands beside it is begun.
3. Evidence that the run needs comes before the form of its output.
4. Whoever says something to the run before it has ended is heard first: then no reply before that is the final one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from trouper.core import wording
from trouper.core.decide_tools import returned
from trouper.core.state import Action, Phase, RunState
from trouper.core.steps import CheckOutput, Close, Fail, Reject, Step, Succeed


def held_outputs(state: RunState) -> Iterator[Step]:
    """What must happen to the calls of ``final_result`` in a batch."""
    held = [action for action in state.batch if action.gate == "output" and action.phase is not Phase.CLOSED]
    if not held:
        return
    index = state.index - 1
    if state.answer.index == index and state.answer.verdict is not None:
        yield from (_receipt(state, action) for action in held)
    elif state.control.inbox and not state.closing:
        yield from (_unused(action, wording.OUTPUT_OVERTAKEN) for action in held)
    elif not state.terms.output:
        yield from (_unused(action, wording.OUTPUT_UNWANTED) for action in held)
    elif all(action.phase is Phase.CLOSED for action in state.batch if action.gate != "output"):
        if not state.closing and any(action.ok is False for action in state.batch):
            yield from (_unused(action, wording.OUTPUT_HELD_BACK) for action in held)
        else:
            yield _look(state, index)


def _receipt(state: RunState, action: Action) -> Step:
    answer = state.answer
    if answer.verdict != "accepted":
        return _unused(action, answer.told)
    if action.action != answer.action:
        return _unused(action, wording.OUTPUT_TWICE)
    return Close(action.action, 0, "ok", "output", wording.OUTPUT_ACCEPTED)


def _unused(action: Action, text: str) -> Step:
    return Close(action.action, 0, "error", "output", text)


def _look(state: RunState, index: int) -> Step:
    missing = wording.missing(state)
    if missing:
        return Reject(index, missing)
    return CheckOutput(index)


def ending(state: RunState) -> Step | None:
    """What the last reply leads to, once its calls are over; None: the model is asked again."""
    answer, index = state.answer, state.index - 1
    last = state.messages[-1].role if state.messages else ""
    # What somebody said after the reply has the last word, whatever the reply was.
    overtaken = last not in {"ai", "tool"}
    if answer.refused and not overtaken:
        return Fail("refused", wording.REFUSED)
    if answer.index == index and answer.verdict in {"invalid", "incomplete"}:
        allowed = 0 if state.closing else state.terms.rounds
        if answer.rejections <= allowed:
            return None
        kind: Literal["output", "incomplete"] = "output" if answer.verdict == "invalid" else "incomplete"
        return Fail(kind, wording.not_accepted(answer.rejections, answer.told))
    if answer.index == index and answer.verdict == "accepted":
        return None if overtaken else Succeed()
    if (step := returned(state)) is not None:
        return step
    if last != "ai" and not state.closing:
        return None
    if state.terms.requires or state.terms.output:
        look = _look(state, index)
        return look if state.terms.output or isinstance(look, Reject) else Succeed()
    return Succeed()
