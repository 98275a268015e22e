"""The words that explanations share."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from trouper.audit.chain import Binding
from trouper.audit.definitions import Standing
from trouper.audit.seen import Check
from trouper.audit.trace import Call, Cost
from trouper.cli.output import styled
from trouper.narration.spending import money
from trouper.narration.text import clean, who
from trouper.narration.when import when

_OUTCOMES = {
    "open": ("not over", "yellow"),
    "ok": ("done", "green"),
    "error": ("without success", "red"),
    "in_doubt": ("in doubt", "yellow"),
    "resolved": ("settled by a person", "green"),
}
BINDINGS: dict[Binding, tuple[str, str]] = {
    "matches": (
        "what was approved or let through is this call: its digest, computed anew, is the recorded one",
        "green",
    ),
    "differs": ("the recorded digest is NOT that of this call", "bold red"),
    "erased": ("the call's digest cannot be computed anew: its content is erased, or sealed", "yellow"),
    "none": ("the call never got as far as having a digest", "dim"),
}
DOCUMENTS: dict[Standing, tuple[str, str]] = {
    "matches": ("its document is in the journal, and is the one that the digest names", "dim"),
    "differs": ("its document is NOT the one that the digest names", "bold red"),
    "missing": ("its document is not in the journal", "bold red"),
    "erased": ("its document was erased", "yellow"),
    "unread": ("its document cannot be read here", "yellow"),
}
ORIGINS = {
    "instructions": "instructions",
    "history": "what was said before",
    "summary": "summary of what was dropped",
    "input": "what was asked",
    "reply": "reply",
    "result": "result",
    "signal": "said meanwhile",
    "check": "what was wrong with an answer",
    "again": "asked again after a refusal",
    "budget": "what is running out",
    "hook": "inserted",
    "wrap_up": "the word to come to an end",
}


def outcome(call: Call, unread: str | None) -> tuple[str, str]:
    """How a call stands; behind the place up to which its run could be read, it may have gone on."""
    if unread is not None and call.outcome == "open":
        return "not known: what followed cannot be read", "bold red"
    return _OUTCOMES[call.outcome]


def check_lines(check: Check) -> Iterable[Text]:
    """Whether a request is what was recorded of it."""
    match check.digest:
        case "matches":
            short = check.recorded.hex()[:12]
            whole = check.unread is None and check.history is None
            over = "over what is shown here" if whole else "behind the pinned digest of the history"
            yield styled(f"request digest {short}: computed anew {over}, it is the recorded one", "green")
        case "differs":
            digests = f"recorded {check.recorded.hex()}, computed anew {check.recomputed.hex()}"
            yield styled(f"the request digest DIFFERS: {digests}", "bold red")
        case _:
            yield styled("the request digest cannot be computed anew: content is erased, or sealed", "yellow")
    if check.unread is not None:
        yield styled(
            f"the history before the run cannot be read here, and is not shown: {clean(check.unread)}", "yellow"
        )
    if check.history is not None:
        yield styled(f"the history before the run is NOT what it was: {clean(check.history)}", "bold red")
    if check.definition != "matches":
        told, style = DOCUMENTS[check.definition]
        yield styled(f"the definition that instructions and tools are shown from: {told}", style)


def leave(call: Call) -> Iterable[str]:
    """By whose leave, and how often."""
    if call.gate != "free":
        yield f"gate: {call.gate}"
    if call.policy:
        yield f"policy: {clean(call.policy)}"
    for rule in call.rules:
        yield f"standing rule {clean(rule)}"
    if call.approved_by:
        yield f"approved by {', '.join(who(by) for by in call.approved_by)}"
    if call.attempts > 1:
        yield f"{call.attempts} attempts"
    if call.verdict:
        yield f"{who(call.settled_by)} settled it: {call.verdict}"


_SPENT_ON = {
    "reply": "reply",
    "lost": "a lost request, which may have been billed",
    "failed": "a failed request",
    "hook": "models that hooks asked",
    "summary": "a summary of the history",
}


def cost_text(cost: Cost) -> Text:
    """Something that was spent, in one line."""
    tokens = [
        f"{number:,} {direction}"
        for direction, number in (("in", cost.input_tokens), ("out", cost.output_tokens))
        if number is not None
    ]
    parts = [f"tokens: {', '.join(tokens)}"] if tokens else []
    if cost.assumed_tokens:
        parts.append(f"about {cost.assumed_tokens:,} tokens reckoned with")
    if cost.cost:
        parts.append(f"cost {money(cost.cost)}")
    if cost.price:
        parts.append(f"price {clean(cost.price)}")
    if cost.model:
        parts.append(f"model {clean(cost.model)}")
    record = cost.entry.record
    place = f"{when(record.recorded_at, digits=3)} #{record.position}  "
    number = "" if cost.index is None else f" (model call {cost.index})"
    told = ", ".join(parts) or ("nothing is owed for it" if cost.what == "failed" else "nobody told what it took")
    return Text.assemble((place, "dim"), (f"{_SPENT_ON[cost.what]}{number}", "bold"), f": {told}")
