"""What a caller's model is told of a sub-agent that has ended: what is known, no more and no less."""

from __future__ import annotations

import json

from trouper.core.child_events import ChildFinished
from trouper.core.conversation import AI, Message, ToolMessage
from trouper.core.family import DEPTH, Parent
from trouper.core.state import RunPhase, RunState
from trouper_journal import Value

TOO_DEEP = f"Not started: sub-agents can call each other {DEPTH} deep at most, and this run is as deep as that."

_REASONS = {
    "model": "it got no reply from its model",
    "step_limit": "it reached its limit of steps",
    "budget": "there was not enough left of what it may spend",
    "truncated": "its replies were cut off by their length limit again and again",
    "output": "its answers did not fit the output that it was asked for",
    "incomplete": "it did not do what it must have done first",
    "refused": "it refused",
    "binding": "its tools could not be chosen",
}


def finished(state: RunState, parent: Parent) -> ChildFinished:
    """How a child ended, for its parent."""
    match state.phase:
        case RunPhase.SUCCEEDED:
            answer = state.output or f"The agent {state.agent} ended without saying anything."
            text = _steps(state) if parent.returns == "steps" else answer
            value: Value = answer if parent.returns == "steps" else None
            if state.answer.verdict == "accepted":
                value = state.answer.value
            return ChildFinished(parent.action, state.run, "succeeded", None, state.spent, text, value)
        case RunPhase.FAILED:
            text = f"Failed: {_reason(state)}{_known(state)}"
            return ChildFinished(parent.action, state.run, "failed", state.failure, state.spent, text)
        case _:
            text = f"Cancelled: {_who_cancelled(state)}{_known(state)}"
            return ChildFinished(parent.action, state.run, "cancelled", None, state.spent, text)


def _steps(state: RunState) -> str:
    return json.dumps([_plain(message) for message in state.messages], ensure_ascii=False)


def _plain(message: Message) -> dict[str, Value]:
    content = message.content
    said: dict[str, Value] = {"role": message.role}
    if content is not None:
        said["content"] = content if isinstance(content, str) else [dict(part) for part in content]
    if isinstance(message, AI) and message.tool_calls:
        said["tool_calls"] = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        said |= {"name": message.name, "status": message.status}
    return said


def _reason(state: RunState) -> str:
    reason = _REASONS.get(state.failure or "", "it could not go on")
    said = f" ({state.failure_message})" if state.failure_message else ""
    return f"the agent {state.agent} did not finish, because {reason}{said}."


def _who_cancelled(state: RunState) -> str:
    by = f" by {state.cancel.by.id}" if state.cancel and state.cancel.by else ""
    why = f" ({state.cancel.reason})" if state.cancel and state.cancel.reason else ""
    return f"the agent {state.agent} was stopped{by}{why} before it had finished."


def _known(state: RunState) -> str:
    """What it leaves behind."""
    known = ""
    if any(isinstance(message, ToolMessage) and message.status == "ok" for message in state.messages):
        known += " What its calls had done until then stays done."
    if state.in_doubt:
        names = ", ".join(action.tool for action in state.in_doubt)
        known += f" It is unknown whether these calls took effect: {names}."
    return f"{known} The last that it said: {state.said}" if state.said else known
