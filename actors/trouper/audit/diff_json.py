"""Comparisons as JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from trouper.audit.aligning import Row
from trouper.audit.diff import Comparison, Pair, Said, Side
from trouper.audit.seen import HookOp
from trouper.audit.why_json import JsonObject, call_in_short_json, entry_json, message_json
from trouper.narration.plain import fields, moment, plain

T = TypeVar("T")


def comparison_json(found: Comparison) -> JsonObject:
    """Two runs side by side."""
    left, right = found.left.run, found.right.run
    return {
        "same": found.same,
        "left": _side_json(found.left),
        "right": _side_json(found.right),
        "fork": None if found.fork is None else fields(found.fork),
        "start": _pairs_json(found.start),
        "definition": list(found.definition),
        "common_messages": found.common,
        "messages": _rows_json(found.messages, _said_json, _said_json),
        "calls": _rows_json(
            found.calls, lambda call: call_in_short_json(left, call), lambda call: call_in_short_json(right, call)
        ),
        "hooks": _rows_json(found.hooks, _hook_json, _hook_json),
        "end": _pairs_json(found.end),
        "spend": _pairs_json(found.spend),
    }


def _side_json(side: Side) -> JsonObject:
    return {
        "run": side.run,
        "agent": side.agent,
        "label": side.label,
        "submitted": None if side.submitted is None else entry_json(side.submitted),
        "began_at": moment(side.began),
        "last_at": moment(side.last),
        "definition": side.document.digest or None,
        "messages": side.messages,
        "output": plain(side.output),
        "spent": fields(side.spent),
        "erased": side.erased,
        "unread": side.unread,
    }


def _pairs_json(pairs: Sequence[Pair]) -> list[JsonObject]:
    return [{"name": pair.name, "left": plain(pair.left), "right": plain(pair.right)} for pair in pairs]


def _rows_json(
    rows: Sequence[Row[T]], left: Callable[[T], JsonObject], right: Callable[[T], JsonObject]
) -> list[JsonObject]:
    return [
        {
            "kind": row.kind,
            "left": None if row.left is None else left(row.left),
            "right": None if row.right is None else right(row.right),
        }
        for row in rows
    ]


def _said_json(said: Said) -> JsonObject:
    return {"run": said.run, "erased": said.erased, "message": message_json(said.message, erased=said.erased)}


def _hook_json(op: HookOp) -> JsonObject:
    return {"hook": op.hook, "position": op.position, **fields(op.op), "op": op.op.op}
