"""What a tool promises and what it is said to do, apart and the same in every process (for drift and approvals)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Literal

import pytest

from trouper.core.conversation import ToolSpec
from trouper.tools import Absent, Found, ToolContext, tool


def send(to: str, body: str = "") -> str:
    """Send a letter.

    Args:
        to: Who gets it.
        body: What it says.
    """
    return to + body


def send_reworded(to: str, body: str = "") -> str:
    """Send mail to somebody.

    Args:
        to: The recipient.
        body: The text.
    """
    return to + body


def send_reordered(body: str = "", *, to: str) -> str:
    return to + body


def send_more(to: str, body: str = "", copy: str = "") -> str:
    return to + body + copy


def send_typed(to: Literal["a", "b"], body: str = "") -> str:
    return to + body


def send_with_token(to: str, body: str = "", *, token: str, ctx: ToolContext) -> str:
    return to + body + token + ctx.run


def sent(to: str) -> Found | Absent:
    return Found(to) if to else Absent()


def judge(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments)


BASE = tool(send, name="send")


def test_the_contract_is_all_that_a_call_depends_on() -> None:
    made = tool(
        send_with_token, name="send", effect="idempotent_write", secrets={"token": "mail/key"}, timeout=2, attempts=5
    )
    assert made.contract() == {
        "name": "send",
        "parameters": {
            "additionalProperties": False,
            "properties": {"body": {"default": "", "type": "string"}, "to": {"type": "string"}},
            "required": ["to"],
            "type": "object",
        },
        "effect": "idempotent_write",
        "gate": "none",
        "timeout": 2.0,
        "attempts": 5,
        "version": "1",
        "secrets": {"token": "mail/key"},
    }


def test_prose_is_all_that_a_model_is_told_beside_it() -> None:
    assert BASE.prose() == {
        "description": "Send a letter.",
        "parameters": {"body": "What it says.", "to": "Who gets it."},
    }


def test_rewording_and_reordering_change_no_contract() -> None:
    reworded = tool(send_reworded, name="send")
    assert reworded.contract() == BASE.contract()
    assert reworded.prose() != BASE.prose()
    assert tool(send_reordered, name="send").contract() == BASE.contract()
    assert tool(send, concurrency=1, approval_expires=60).contract() == BASE.contract()


@pytest.mark.parametrize(
    "other",
    [
        tool(send, name="post"),
        tool(send_more, name="send"),
        tool(send_typed, name="send"),
        tool(send_with_token, name="send", secrets={"token": "mail/key"}),
        tool(send, effect="read_only"),
        tool(send, effect="queryable_write", query=sent),
        tool(send, requires_approval=True),
        tool(send, requires_approval=judge),
        tool(send, timeout=1),
        tool(send, attempts=1),
        tool(send, version="2"),
    ],
)
def test_whatever_changes_a_calls_meaning_changes_the_contract(other: Any) -> None:
    assert other.contract() != BASE.contract()


def test_an_undeclared_effect_is_the_dangerous_one() -> None:
    assert BASE.contract() == tool(send, effect="unqueryable_write").contract()


def test_what_a_model_sees() -> None:
    assert BASE.spec() == ToolSpec("send", "Send a letter.", BASE.parameters)
    assert json.loads(json.dumps(BASE.parameters)) == BASE.parameters


PROGRAM = """
import dataclasses, datetime, decimal, enum, json
from trouper.tools import tool

class Size(enum.Enum):
    LARGE = "l"
    SMALL = "s"


@dataclasses.dataclass
class Tree:
    size: Size
    inner: list["Tree"]

def plant(trees: list[Tree], tags: set[str] = frozenset("bca"), price: decimal.Decimal = decimal.Decimal("1.0"),
          when: datetime.date | None = None, where: dict[str, Size] | int = 3): ...

made = tool(plant, secrets={})
print(json.dumps([made.contract(), made.prose(), made.parameters]))
"""


def test_contracts_are_the_same_in_every_process() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    contract, _, parameters = json.loads(said.pop())
    assert contract["parameters"]["properties"]["tags"]["default"] == ["a", "b", "c"]
    assert list(parameters["properties"]) == ["trees", "tags", "price", "when", "where"]


def test_importing_tools_does_not_import_pydantic() -> None:
    program = "import sys, trouper.tools; sys.exit('pydantic' in sys.modules or 'docstring_parser' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
