"""Explanations as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable

from trouper.audit.chain import AnswerWhy, CallWhy, ModelWhy, OriginWhy, RuleWhy, SpendWhy
from trouper.audit.definitions import Document
from trouper.audit.seen import Check, HookOp, LeftOut, Request, Seen
from trouper.audit.summaries import SummaryWhy
from trouper.audit.trace import Call, Cost, Entry
from trouper.core.conversation import AI, Message, ToolMessage
from trouper.core.events import ModelRequested
from trouper.narration.plain import fields, moment, plain, principal_json, record_json
from trouper_journal import ERASED

JsonObject = dict[str, object]


def entry_json(entry: Entry) -> JsonObject:
    """A record with its event."""
    return record_json(entry.record, entry.event)


def _entries(entries: Iterable[Entry]) -> list[JsonObject]:
    return [entry_json(entry) for entry in entries]


def message_json(message: Message | None, *, erased: bool = False) -> object:
    """A message, whole; of one that was erased its kind and its id, as far as they are known."""
    if message is None:
        return plain(ERASED) if erased else None
    if erased:
        return {"role": message.role, "id": message.id, "content": plain(ERASED)}
    told: JsonObject = {"role": message.role, "id": message.id, "content": plain(message.content)}
    if isinstance(message, AI):
        told["tool_calls"] = [fields(call) for call in message.tool_calls]
        told["reasoning"], told["refusal"] = message.reasoning, message.refusal
    if isinstance(message, ToolMessage):
        told |= {"call_id": message.call_id, "name": message.name, "status": message.status}
    return told | ({"extra": plain(message.extra)} if message.extra else {})


def _hook_json(op: HookOp | None) -> JsonObject | None:
    return None if op is None else {"hook": op.hook, "op": op.op.op, "position": op.position}


def _seen_json(seen: Seen) -> JsonObject:
    return {
        "origin": seen.origin,
        "run": seen.run or None,
        "message": message_json(seen.message, erased=seen.erased),
        "erased": seen.erased,
        "hook": _hook_json(seen.hook),
        "original": message_json(seen.original, erased=seen.erased),
    }


def _left_out_json(left: LeftOut) -> JsonObject:
    return {"run": left.run, "message": message_json(left.message, erased=left.erased), "hook": _hook_json(left.hook)}


def check_json(check: Check | None) -> JsonObject | None:
    """Whether a request is what was recorded of it."""
    if check is None:
        return None
    return {
        "ok": check.ok,
        "digest": check.digest,
        "recorded": check.recorded.hex(),
        "recomputed": check.recomputed.hex() or None,
        "history": check.history,
        "definition": check.definition,
        "unread": check.unread,
    }


def request_json(request: Request) -> JsonObject:
    """An attempt at a model call, with the messages as the model saw them."""
    return {
        "attempt": request.attempt,
        "position": None if request.record is None else request.record.position,
        "requested_at": None if request.record is None else moment(request.record.recorded_at),
        "model": plain(request.model),
        "settings": plain(request.settings),
        "closing": request.closing,
        "check": check_json(request.check),
        "exact": request.exact,
        "erased": request.erased,
        "messages": [_seen_json(seen) for seen in request.messages],
        "left_out": [_left_out_json(left) for left in request.left_out],
        "tools": [fields(tool) for tool in request.tools],
    }


def model_json(model: ModelWhy) -> JsonObject:
    """A model call."""
    return {
        "index": model.index,
        "taken_over_from": model.taken_over or None,
        "requests": [request_json(request) for request in model.requests],
        "reply": None if model.reply is None else entry_json(model.reply),
        "facts": _entries(entry for entry in model.facts if not isinstance(entry.event, ModelRequested)),
    }


def call_in_short_json(run: str, call: Call) -> JsonObject:
    """A call, in short."""
    return {
        "action": f"{run}/{call.action}",
        "tool": call.tool,
        "effect": None if call.effect is None else call.effect.value,
        "arguments": plain(ERASED if call.erased else call.arguments),
        "position": call.position,
        "gate": call.gate,
        "policy": call.policy,
        "rules": list(call.rules),
        "approved_by": [principal_json(by) for by in call.approved_by],
        "void_decisions": list(call.void),
        "attempts": call.attempts,
        "outcome": call.outcome,
        "evidence": call.evidence or None,
        "text": plain(call.text),
        "child": call.child or None,
        "verdict": call.verdict,
        "settled_by": principal_json(call.settled_by),
    }


def _rule_json(rule: RuleWhy) -> JsonObject:
    return {
        "rule": rule.rule,
        "added": None if rule.added is None else entry_json(rule.added),
        "revoked": None if rule.revoked is None else entry_json(rule.revoked),
    }


def _document_json(document: Document) -> JsonObject:
    definition = document.definition
    return {
        "digest": document.digest or None,
        "standing": document.standing,
        "document": None if definition is None else plain(definition.document),
    }


def _summary_json(summary: SummaryWhy) -> JsonObject:
    return {
        "position": summary.entry.record.position,
        "digest": summary.digest,
        "dropped": [message_json(message) for message in summary.dropped],
        "messages": [message_json(message) for message in summary.messages],
        "unread": summary.unread,
    }


def origin_json(origin: OriginWhy) -> JsonObject:
    """Why there is a run."""
    return {
        "run": origin.run,
        "agent": origin.agent,
        "label": origin.label,
        "submitted": None if origin.submitted is None else entry_json(origin.submitted),
        "session_records": _entries(origin.session),
        "fork_of": origin.fork_of or None,
        "caller": None if origin.caller is None else call_json(origin.caller),
        "definition": _document_json(origin.document),
        "facts": _entries(origin.facts),
        "summaries": [_summary_json(summary) for summary in origin.summaries],
        "unread": origin.unread,
        "withheld": origin.withheld,
    }


def call_json(why: CallWhy) -> JsonObject:
    """Why a call was made, or was not."""
    return {
        "kind": "call",
        **call_in_short_json(why.run, why.call),
        "run": why.run,
        "asked": plain(why.asked),
        "binding": why.binding,
        "breach": why.breach,
        "told": message_json(why.told, erased=why.told_erased),
        "facts": _entries(why.facts),
        "standing_rules": [_rule_json(rule) for rule in why.rules],
        "model_call": model_json(why.model),
        "origin": origin_json(why.origin),
        "below": None if why.child is None else answer_json(why.child),
    }


def answer_json(why: AnswerWhy) -> JsonObject:
    """Why a run ended as it did, or stands as it stands."""
    return {
        "kind": "answer",
        "run": why.run,
        "label": why.origin.label,
        "output": plain(why.output),
        "ended": None if why.ended is None else entry_json(why.ended),
        "source": why.source,
        "calls": [call_in_short_json(why.run, call) for call in why.calls],
        "model_call": model_json(why.model),
        "origin": origin_json(why.origin),
        "children": [answer_json(child) for child in why.children],
    }


def _cost_json(cost: Cost) -> JsonObject:
    return {
        "what": cost.what,
        "index": cost.index,
        "position": cost.entry.record.position,
        "recorded_at": moment(cost.entry.record.recorded_at),
        "model": cost.model or None,
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        "cached_tokens": cost.cached_tokens,
        "assumed_tokens": cost.assumed_tokens,
        "price": cost.price,
        "cost": cost.cost,
    }


def spend_json(why: SpendWhy) -> JsonObject:
    """What a run has spent, and on what."""
    return {
        "kind": "spend",
        "run": why.run,
        "label": why.origin.label,
        "spent": fields(why.spent),
        "own": fields(why.own),
        "limits": None if why.limits is None else fields(why.limits),
        "costs": [_cost_json(cost) for cost in why.costs],
        "calls": [call_in_short_json(why.run, call) for call in why.calls],
        "facts": _entries(why.facts),
        "origin": origin_json(why.origin),
        "children": [spend_json(child) for child in why.children],
    }
