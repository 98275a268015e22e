"""Values, events and records as JSON for programs."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeAlias, TypeVar

import attrs

from trouper.core.events import Principal
from trouper.core.state import Action, Phase, RunState
from trouper.core.status import status
from trouper_journal import ERASED, Damaged, Erased, Record, unpack_map

Json: TypeAlias = Mapping[str, object]
T = TypeVar("T")

SECOND: Final = 1_000_000_000

# It keys the digests of the run's content: whoever needs it has the journal, a log file need not have it.
_WITHHELD: Final = frozenset({"salt"})


def plain(value: object) -> object:
    """A value in JSON's own types.

    Bytes become ``{"$bytes": base64}``, what was erased ``{"$erased": true}``, and the floats that JSON has no word
    for their names.
    """
    match value:
        case Erased():
            return {"$erased": True}
        case Enum():
            return value.value
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _ if attrs.has(type(value)):
            return fields(value)
        case _:
            return str(value)


def fields(event: object) -> dict[str, object]:
    """The fields of an event or another attrs object; digests in hexadecimal."""
    found: dict[str, object] = {}
    kind = type(event)
    for each in attrs.fields(kind) if attrs.has(kind) else ():
        value: object = getattr(event, each.name)
        if each.name not in _WITHHELD:
            found[each.name] = value.hex() if isinstance(value, bytes) else plain(value)
    return found


_FIRST: Final = -62_135_596_800 * SECOND
_LAST: Final = 253_402_300_800 * SECOND - 1


def moment(nanoseconds: int) -> str:
    """A moment as people and programs read it: UTC, to the microsecond; within the years 1 to 9999."""
    seconds, rest = divmod(max(_FIRST, min(nanoseconds, _LAST)), SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:06}Z"


def record_json(record: Record, event: object | None) -> dict[str, object]:
    """A record with its event; ``data`` is null where this release does not know the event."""
    if isinstance(record, Damaged):
        return _damaged_json(record)
    return {
        "position": record.position,
        "stream": record.stream,
        "version": record.version,
        "type": record.type,
        "schema": record.schema,
        "recorded_at": moment(record.recorded_at),
        "key": record.key,
        "label": record.label,
        "leaf": record.leaf.hex(),
        "meta": plain(unpack_map(record.meta)),
        "data": None if event is None else fields(event),
    }


def _damaged_json(record: Damaged) -> dict[str, object]:
    """A place where something else stands than was recorded, of which nothing is told."""
    return {
        "position": record.first or record.position,
        "upto": record.position,
        "stream": record.stream or None,
        "type": record.type,
        "problem": record.problem,
    }


def principal_json(principal: Principal | Erased | None) -> object:
    """Who did something."""
    return plain(principal)


def kept(state: RunState, value: T) -> T | Erased:
    """What a run's fold holds of content: erased where there is nothing, because the fold has nothing in its place."""
    return ERASED if state.erased and not value else value


def action_json(state: RunState, action: Action) -> dict[str, object]:
    """A call that waits, was decided on or is in doubt."""
    decision = action.decision
    approvals = [vote.by for vote in action.consent.votes if vote.decision == "approve"]
    over = action.ok is not None or action.phase in {Phase.UNRESOLVED, Phase.RESOLVED}
    return {
        "action": f"{state.run}/{action.action}",
        "run": state.run,
        "agent": state.agent,
        "path": list(state.path),
        "tool": action.tool,
        "arguments": plain(kept(state, action.arguments)),
        "digest": action.digest.hex(),
        "effect": action.effect.value,
        "phase": action.phase.value,
        "attempt": action.attempt,
        "requested_by": plain(kept(state, state.by)),
        "quorum": action.consent.asking.quorum,
        "approved_by": [plain(kept(state, by)) for by in approvals],
        "eligible": plain(ERASED if action.consent.eligible is None else action.consent.eligible),
        "separation": action.consent.asking.separation,
        "policy": action.consent.grounds.policy,
        "rules": plain(action.consent.grounds.rules),
        "why": plain(kept(state, action.consent.reason)),
        "expires_at": None if action.expires_at is None else moment(action.expires_at),
        "decision": None if decision is None else decision.decision,
        "decided_by": None if decision is None else plain(kept(state, decision.by)),
        "reason": None if decision is None else plain(kept(state, decision.reason)),
        "original_arguments": plain(action.original if decision is None else kept(state, action.original)),
        "verdict": action.verdict,
        "settled_by": None if action.verdict is None else plain(kept(state, action.settled_by)),
        "evidence": None if action.verdict is None else plain(kept(state, action.evidence)),
        "text": plain(kept(state, action.text)) if over else action.text,
    }


def answer_text(state: RunState) -> str | None:
    """A run's answer for people: a structured output as JSON over several lines; None unless it succeeded."""
    if state.erased and state.output is not None:
        return "[erased]"
    if state.answer.verdict != "accepted" or state.output is None:
        return state.output
    return json.dumps(plain(state.answer.value), indent=2, ensure_ascii=False)


def _output_json(state: RunState) -> object:
    if state.erased and state.output is not None:
        return plain(ERASED)
    return plain(state.answer.value) if state.answer.verdict == "accepted" and state.output else state.output


def state_json(state: RunState) -> dict[str, object]:
    """A run as it stands."""
    pause = state.control.pause
    return {
        "run": state.run,
        "agent": state.agent,
        "path": list(state.path),
        "label": status(state).label,
        "asked_by": plain(kept(state, state.by)),
        "output": _output_json(state),
        "failure": state.failure,
        "message": None if state.failure is None else plain(kept(state, state.failure_message or None)),
        "steps": state.steps,
        "paused": None
        if pause is None
        else {each: plain(kept(state, getattr(pause, each))) for each in ("by", "reason")},
        "usage": fields(state.usage),
        "spent": fields(state.spent),
        "refused": None if state.budget.refused is None else fields(state.budget.refused),
        "drift": None if state.drift is None else plain(kept(state, state.drift)),
        "session": None if state.turn is None else state.turn.place.session,
        "awaiting": [action_json(state, action) for action in state.awaiting],
        "in_doubt": [action_json(state, action) for action in state.in_doubt],
        "children": [{"run": child.run, "agent": child.agent, "label": child.status} for child in state.children],
    }
