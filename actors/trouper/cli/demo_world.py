"""What the demo plays with: a ticket system and a model's bill, both in files outside the journal, and an agent.

The files stand for the world: nothing in the runtime reads them, they are only there to be counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from trouper.agent import Agent
from trouper.core.conversation import AI, Message, ToolCall, ToolSpec, Usage, Value
from trouper.core.exchange import ModelConfig, ModelReply
from trouper.tools import ToolContext, tool

TICKET: Final = "INC-001"
REQUEST: Final = f"Close {TICKET}"
COMMAND_ID: Final = "demo-request"

LOOKUP: Final = "lookup"
CLOSE: Final = "close_ticket"


@frozen
class World:
    """The outside world, as files of JSON lines.

    Attributes:
        tickets: One line for each ticket closed: the demo's effects.
        calls: One line for each time the ticket system was asked to close one.
        bill: One line for each request that the model got.
    """

    tickets: Path
    calls: Path
    bill: Path

    @classmethod
    def beside(cls, journal: Path) -> World:
        """The files of a journal's demo."""
        return cls(*(journal.with_suffix(f".{name}.jsonl") for name in ("tickets", "calls", "bill")))

    def close(self, ticket: str, key: str) -> bool:
        """Close a ticket; False where this key has closed it before and nothing is done."""
        _append(self.calls, {"ticket": ticket, "key": key, "process": os.getpid()})
        if any(line["key"] == key for line in lines(self.tickets)):
            return False
        _append(self.tickets, {"ticket": ticket, "key": key, "process": os.getpid()})
        return True

    def charge(self, turn: int) -> None:
        """Put a model request on the bill."""
        _append(self.bill, {"turn": turn, "process": os.getpid()})


def lines(file: Path) -> list[dict[str, Value]]:
    """The lines of one of the world's files."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _append(file: Path, value: Mapping[str, Value]) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(value) + "\n")
        opened.flush()
        os.fsync(opened.fileno())


def _call(name: str, **arguments: Value) -> AI:
    return AI("", None, (ToolCall("", name, json.dumps(arguments)),))


_SCRIPT: Final[Sequence[AI]] = (
    _call(LOOKUP, ticket=TICKET),
    _call(CLOSE, ticket=TICKET),
    AI("", f"{TICKET} is closed."),
)


class DemoModel:
    """A model that follows a script, and bills every request.

    Which line it says depends only on how many it has said in the conversation, as a real model's answer depends on
    the conversation alone: so it takes no notice of its process being killed.
    """

    name = "demo-model"

    def __init__(self, world: World) -> None:
        self._world = world

    async def agenerate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        config: ModelConfig,
    ) -> ModelReply:
        """Say the next line."""
        del tools, config  # The script knows its tools, and takes no settings.
        turn = sum(isinstance(message, AI) for message in messages)
        self._world.charge(turn)
        reply = _SCRIPT[turn]
        return ModelReply(reply, "tool_calls" if reply.tool_calls else "stop", Usage(40 + 30 * turn, 12))


def desk(world: World, reached: Callable[[str], Awaitable[None]]) -> Agent:
    """The demo's agent.

    Args:
        world: What its tools work on.
        reached: Called by a tool at the point where the demo may want to kill the process.
    """

    @tool(effect="read_only")
    async def lookup(ticket: str) -> dict[str, str]:
        """Read a ticket.

        Args:
            ticket: Ticket number, such as INC-001.
        """
        await reached(LOOKUP)
        return {"ticket": ticket, "status": "open"}

    @tool(effect="idempotent_write", requires_approval=True)
    async def close_ticket(ticket: str, ctx: ToolContext) -> str:
        """Close a ticket.

        Args:
            ticket: Ticket number, such as INC-001.
            ctx: The call that this is; its effect key is what the ticket system knows the wish by.
        """
        new = world.close(ticket, ctx.effect_key)
        await reached(CLOSE)
        return f"{ticket} closed" if new else f"{ticket} was closed under this key before; nothing done"

    instructions = "You close support tickets. Look a ticket up before you close it."
    return Agent("desk", instructions, tools=[lookup, close_ticket], model=DemoModel(world))
