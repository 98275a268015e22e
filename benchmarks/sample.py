"""The agent that the benchmarks run, and journals full of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import trio
from attrs import frozen

from trouper import AI, REGISTRY, Agent, Limits, Message, Runtime, ToolMessage, ToolSpec, tool
from trouper.core.conversation import Human, Usage, text
from trouper.core.events import ApprovalRequested, RunSubmitted, RunSucceeded
from trouper.core.evolve import evolve
from trouper.core.exchange import ModelConfig, ModelReply
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.testing import call, calls
from trouper_journal import Domain, Journal, Value, Write

QUESTION = "The printer on the second floor prints blank pages again. Is ticket INC-001 still open, and who has it?"
ANSWER = "INC-001 is open and assigned to Maria Lang, who ordered a new drum for the printer on Monday."
TICKET = {
    "ticket": "INC-001",
    "status": "open",
    "assignee": "Maria Lang",
    "summary": "Printer on the second floor prints blank pages",
    "note": "Drum ordered, delivery on Thursday",
}
DONE = "Done."
_ACROSS = 20
"""Runs in one commit, where journals are filled."""


@frozen
class InstantModel:
    """Answers at once: looks the ticket up so many times, then answers.

    Unlike the test kit's scripted model it keeps no record of what it was asked, and takes its place in the script
    from the length of the conversation, so that it costs as little as a model can.
    """

    turns: int = 1

    @property
    def name(self) -> str:
        return "instant"

    def identity(self) -> Mapping[str, Value]:
        return {"provider": "benchmarks", "model": "instant"}

    async def agenerate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),  # noqa: ARG002 -- the protocol's
        config: ModelConfig | None = None,  # noqa: ARG002
    ) -> ModelReply:
        await trio.lowlevel.checkpoint()
        # Instructions and the question stand before the first turn, which adds a reply and a tool's answer.
        if (len(messages) - 2) // 2 < self.turns:
            return _LOOK_UP
        return _FINAL


@frozen
class Answering:
    """Answers at once; with ``calls``, it first calls so many helpers in one reply."""

    calls: int = 0

    @property
    def name(self) -> str:
        return "answering"

    def identity(self) -> Mapping[str, Value]:
        return {"provider": "benchmarks", "model": "answering"}

    async def agenerate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),  # noqa: ARG002 -- the protocol's
        config: ModelConfig | None = None,  # noqa: ARG002
    ) -> ModelReply:
        await trio.lowlevel.checkpoint()
        if self.calls and len(messages) == 1:
            asked = calls(*(call("helper", input=f"Part {number}") for number in range(self.calls)))
            return ModelReply(asked, "tool_calls", _USAGE, model="answering")
        return ModelReply(AI("", DONE), "stop", _USAGE, model="answering")


_USAGE = Usage(input_tokens=120, output_tokens=20)
_LOOK_UP = ModelReply(call("lookup", ticket="INC-001"), "tool_calls", _USAGE, model="instant")
_FINAL = ModelReply(AI("", ANSWER), "stop", _USAGE, model="instant")


async def read_ticket(ticket: str) -> dict[str, str]:  # noqa: ARG001 -- there is one ticket only
    """Read a ticket.

    Args:
        ticket: Ticket number, such as INC-001.
    """
    return TICKET


lookup = tool(read_ticket, name="lookup", effect="read_only")
guarded_lookup = tool(read_ticket, name="lookup", effect="read_only", requires_approval=True)


def desk(turns: int = 1) -> Agent:
    """An agent that looks a ticket up so many times before it answers."""
    return Agent(
        "desk",
        instructions="You answer questions about tickets. Look them up first.",
        tools=[lookup],
        model=InstantModel(turns),
        limits=Limits(max_steps=2 * turns + 10),
    )


def guarded_desk() -> Agent:
    """An agent whose look-up needs a person's approval."""
    return Agent("desk", instructions="You answer questions.", tools=[guarded_lookup], model=InstantModel())


def as_json(messages: Sequence[Message]) -> bytes:
    """Messages, arguments and results as compact JSON, as a chat API would have them, without ids."""
    return json.dumps([_as_json(message) for message in messages], separators=(",", ":"), ensure_ascii=False).encode()


def _as_json(message: Message) -> dict[str, object]:
    said: dict[str, object] = {"role": message.role}
    if isinstance(message, AI) and message.tool_calls:
        said["tool_calls"] = [
            {"name": each.name, "arguments": json.loads(each.arguments)} for each in message.tool_calls
        ]
    content = text(message.content)
    if isinstance(message, ToolMessage):
        said["name"] = message.name
        said["content"] = json.loads(content)
    elif content:
        said["content"] = content
    return said


async def one_run(agent: Agent, last: type) -> tuple[str, list[object]]:
    """A run's id and events, from its submission to the first event of a type, really run by a runtime in memory."""
    async with Runtime.open(None, [agent]) as runtime:
        run = await runtime.submit(agent.name, QUESTION)
        async for record in runtime.journal.tail():
            if record.stream == f"run/{run.id}" and isinstance(REGISTRY.decode(record), last):
                return run.id, [event for _, event in await run.events()]
    raise AssertionError("the journal's tail ended before the run did")


async def write_runs(path: Path, count: int) -> None:
    """A journal of so many runs that succeeded."""
    await _write(path, desk(), RunSucceeded, count)


async def write_waiting(path: Path, count: int) -> None:
    """A journal of so many runs that wait for an approval."""
    await _write(path, guarded_desk(), ApprovalRequested, count)


async def _definition(agent: Agent) -> Write:
    """What a runtime records of an agent, with the first run of it."""
    async with Runtime.open(None, [agent]) as runtime:
        await runtime.submit(agent.name, QUESTION)
        async for record in runtime.journal.tail():
            if record.stream.startswith("definition/"):
                return Write(record.stream, [REGISTRY.decode(record)], expected=0)
    raise AssertionError("the journal's tail ended before the agent was defined")


async def _write(path: Path, agent: Agent, last: type, count: int) -> None:
    """Append copies of one run's events as runs of their own: what a runtime would have written, in fewer commits."""
    _, events = await one_run(agent, last)
    definition = await _definition(agent)
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("benchmarks") as fence:
        # Ids like a runtime's own, in order of time.
        runs = [f"01JZZZZZZZ{number:016d}" for number in range(count)]
        await journal.commit([definition], fence=fence)
        for at in range(0, count, _ACROSS):
            await journal.commit([_copy(run, events) for run in runs[at : at + _ACROSS]], fence=fence)


def _copy(run: str, events: Sequence[object]) -> Write:
    """The salt stays the same, and with it every digest: they are over what was said and not over ids."""
    own = [
        attrs.evolve(event, input=(Human(f"{run}/input", QUESTION),)) if isinstance(event, RunSubmitted) else event
        for event in events
    ]
    state = RunState(run)
    for event in own:
        state = evolve(state, event)
    told = status(state)
    stream = f"run/{run}"
    return Write(stream, own, expected=0, label=told.label, wake_at=told.wake_at, domain=Domain(stream, state.salt))


def size(path: Path) -> int:
    """Bytes of a journal that is closed."""
    assert not path.with_name(f"{path.name}-wal").exists(), "leaving folds the write-ahead log into the file"
    return path.stat().st_size
