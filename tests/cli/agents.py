"""Agents for ``trouper run``, and for the daemon of the tests."""

from __future__ import annotations

from pathlib import Path

import attrs
import trio

from trouper import AI, Agent, Limits, ModelError, People, Tool, ToolContext, tool
from trouper.testing import ModelRequest, ScriptedModel, Step, call, calls

HOSTILE = "INC-1\x1b[2J\x1b[31m\r\u202egpj.exe\u2066\n# approved"


@tool(effect="read_only")
def lookup(ticket: str) -> dict[str, str]:
    """Read a ticket."""
    return {"ticket": ticket, "status": "open"}


@tool(effect="idempotent_write", requires_approval=True)
def close_ticket(ticket: str) -> str:
    """Close a ticket."""
    return f"closed {ticket}"


@tool(requires_approval=False)
def wire(amount: int) -> str:
    """Send money, and lose the line."""
    raise OSError(f"connection reset while sending {amount}")


@tool(effect="read_only", secrets={"token": "crm/token"})
def guarded(*, token: str, ctx: ToolContext) -> str:
    """Do something that needs a secret."""
    return f"{len(token)} characters for {ctx.action.partition('/')[2]}"


@tool(effect="read_only", timeout=0.01)
async def slow() -> None:
    """Read something that does not come."""
    await trio.sleep_forever()


def _out_of_order(_: ModelRequest) -> Exception:
    # The file stands for the provider's outage: while it is there, there is no answer.
    return ModelError("the provider is down", status=401)


def _broken(request: ModelRequest) -> str | Exception:
    return ModelError("the provider is down", status=401) if Path("outage").exists() else f"turn {request.turn}"


TOOLS: list[Tool[..., object]] = [lookup, close_ticket, wire, guarded, slow]


def _agent(name: str, *steps: Step, limits: Limits | None = None) -> Agent:
    model = ScriptedModel(steps, by_turn=True)
    return Agent(name, "You help.", tools=TOOLS, model=model, limits=limits or Limits())


asker = _agent("asker", call("lookup", ticket="INC-1"), "It is open.\nReally \x1b[31mred\x1b[0m.")
desk = _agent("desk", call("close_ticket", ticket="INC-1"), "Closed.")
two = _agent("two", calls(call("close_ticket", ticket="A"), call("close_ticket", ticket="B")), "Both.")
hostile = _agent("hostile", call("close_ticket", ticket=HOSTILE), "Done.")
payer = _agent("payer", call("wire", amount=3), "Sent.")
broken = _agent("broken", _broken)
endless = _agent("endless", *[call("lookup", ticket=str(number)) for number in range(9)], limits=Limits(max_steps=3))
keeper = _agent("keeper", call("guarded"), "Guarded.")
dead = _agent("dead", _out_of_order)
patient = _agent("patient", call("slow"), "It did not come.")
extractor = Agent(
    "extractor",
    "You help.",
    tools=TOOLS,
    model=ScriptedModel(
        ["Later.", call("final_result", ticket="INC-1", days="x"), call("final_result", ticket="INC-\u00e9", days=3)],
        by_turn=True,
    ),
    output={
        "type": "object",
        "properties": {"ticket": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["ticket", "days"],
    },
)
refuser = _agent("refuser", AI("", None, refusal="I will not."))

BOARD = People(quorum=2, from_=("maria", "otto", "tester"), separation=True, reason="four eyes")
board = attrs.evolve(_agent("board", call("close_ticket", ticket="INC-1"), "Closed."), approvals=[BOARD])

ALL = [asker, desk, two, hostile, payer, broken, endless, keeper, dead, patient, extractor, refuser, board]


@tool(effect="read_only", permissions=("vault:read",))
def peek() -> str:
    """Look into the vault."""
    return "gold"


vault = Agent("vault", tools=[peek], model=ScriptedModel([call("peek"), "Seen."], by_turn=True))
