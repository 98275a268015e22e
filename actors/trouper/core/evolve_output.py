"""The fold of what becomes of a run's answer."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from trouper.core import output_events as ev
from trouper.core import wording
from trouper.core.answer import FILTERED, Answer
from trouper.core.conversation import Human
from trouper.core.folding import advanced, changed, say
from trouper.core.state import Phase, RunState, known


def _accepted(state: RunState, event: ev.OutputAccepted) -> RunState:
    answer = attrs.evolve(
        state.answer,
        index=event.index,
        verdict="accepted",
        value=known(event.value, None),
        action=event.action,
        told="",
    )
    return advanced(state, answer=answer)


def _rejected(state: RunState, event: ev.OutputRejected) -> RunState:
    told = known(event.text, "")
    answer = attrs.evolve(
        state.answer,
        index=event.index,
        verdict=event.kind,
        value=None,
        action=None,
        told=told,
        rejections=state.answer.rejections + 1,
    )
    if any(action.gate == "output" for action in state.batch):
        # The model reads it as the result of its call.
        return advanced(state, answer=answer)
    messages, chain = say(state, (Human(f"{state.run}/{event.index}.check", told),))
    return advanced(state, answer=answer, messages=messages, chain=chain)


def after_reply(answer: Answer, finish: str, *, refusal: bool) -> Answer:
    """How the answer stands after a reply."""
    refused = refusal or finish in FILTERED
    if answer.verdict == "accepted":
        # Somebody has said something since it was: it is not what the run comes to.
        answer = attrs.evolve(answer, verdict=None, value=None, action=None)
    return answer if answer.refused == refused else attrs.evolve(answer, refused=refused)


def after_receipt(state: RunState, name: str) -> RunState:
    """Remember that a call did what was asked; not that the final output was handed in."""
    action = state.action(name)
    if action is None or action.phase is Phase.CLOSED or action.gate == "output":
        return state
    return changed(state, answer=state.answer.receipted(action.tool))


def after_resume(state: RunState) -> RunState:
    """Somebody lets the run go on that failed over its answer: the model gets as many rounds again."""
    if state.failure == "refused":
        again = Human(f"{state.run}/{state.index - 1}.again", wording.REFUSED_AGAIN)
        messages, chain = say(state, (again,))
        return changed(state, messages=messages, chain=chain, answer=attrs.evolve(state.answer, refused=False))
    if state.failure not in {"output", "incomplete"}:
        return state
    left = 0 if state.closing else min(1, state.terms.rounds)
    return changed(state, answer=attrs.evolve(state.answer, rejections=left))


OUTPUT_STEPS: dict[type, Callable[..., RunState]] = {
    ev.OutputAccepted: _accepted,
    ev.OutputRejected: _rejected,
}
