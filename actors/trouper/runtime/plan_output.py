"""The shell's part in a run's answer: it is read and checked with the agent's own type, once, and then journaled."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from trouper.agent import Agent
from trouper.binding import chosen
from trouper.core import events as ev
from trouper.core import wording
from trouper.core.budget import Refusal
from trouper.core.conversation import AI, Message, System, ToolSpec
from trouper.core.conversation import text as text_of
from trouper.core.effects import Effect
from trouper.core.events import AskedCall
from trouper.core.exchange import ModelConfig
from trouper.core.hooking import replaced
from trouper.core.state import Phase, RunState
from trouper.errors import ArgumentsError
from trouper.tools import parse_arguments
from trouper.tools._output import Fit
from trouper_journal import Value


def plan_output_call(action: str, asked: AskedCall) -> ev.ActionPlanned:
    """A call that hands in the final output: it runs nothing, and is looked at when all others are over."""
    arguments: dict[str, Value] | None = None
    with suppress(ArgumentsError):
        arguments = parse_arguments(asked.arguments)
    return ev.ActionPlanned(action, asked.name, Effect.READ_ONLY, "output", arguments=arguments)


def check_output(agent: Agent, state: RunState, index: int) -> object:
    """Read the output out of the last reply: it is accepted, or rejected."""
    answering = agent.answering
    reply = next((message for message in reversed(state.messages) if isinstance(message, AI)), None)
    if answering is None or reply is None:
        return ev.OutputRejected(index, "invalid", wording.OUTPUT_UNWANTED)
    held = [action.action for action in state.batch if action.gate == "output" and action.phase is not Phase.CLOSED]
    if held:
        read = answering.read_calls(reply, held)
        if isinstance(read, tuple):
            action, fit = read
            return ev.OutputAccepted(index, action, fit.value)
        return ev.OutputRejected(index, "invalid", read.reason)
    found = answering.read_text(text_of(replaced(reply, state.hooks.ops).content), truncated=state.truncated)
    if isinstance(found, Fit):
        return ev.OutputAccepted(index, None, found.value)
    return ev.OutputRejected(index, "invalid", found.reason)


# ---- what goes to the model


def briefing(agent: Agent) -> tuple[Message, ...]:
    """Standing orders, with what they say about the output."""
    told = "" if agent.answering is None else agent.answering.instructions
    text = "\n\n".join(part for part in (agent.instructions, told) if part)
    return (System(id="instructions", content=text),) if text else ()


def wrap_up(agent: Agent, refusal: Refusal | None = None) -> Message:
    """The word to come to an end, at a limit of steps or (where something was refused) at another one."""
    text = wording.wrap_up(refusal) if agent.answering is None else agent.answering.wrap_up
    return System(id="wrap-up", content=text)


def offered(agent: Agent, *, closing: bool, bound: tuple[str, ...] | None = None) -> tuple[ToolSpec, ...]:
    """The tools of a request: all, or those chosen for it; at the limit none but the one that hands in the output."""
    own = () if closing else agent.specs
    if bound is not None:
        own = tuple(spec for spec in own if spec.name in bound)
    if agent.answering is None or agent.answering.mode != "tool":
        return own
    return (*own, agent.answering.spec)


def settings(agent: Agent, state: RunState, names: Iterable[str], *, closing: bool) -> ModelConfig:
    """The settings of a request that offers the tools of these names."""
    config = chosen(agent.config, state, names)
    return config if agent.answering is None else agent.answering.config(config, closing=closing)


def typed_output(agent: Agent | None, state: RunState) -> object:
    """The output of a run as its agent's type has it.

    Where the agent is not at hand, or its type is another one by now, it stays JSON.
    """
    if state.answer.verdict != "accepted" or state.output is None:
        return state.output
    if agent is not None and agent.output is not None:
        read = agent.output.shape.read(state.answer.value)
        if isinstance(read, Fit):
            return read.typed
    return state.answer.value
