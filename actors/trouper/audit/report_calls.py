"""Calls in a report: each as a card in the conversation, and all of them in a table with by whose leave they ran."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from trouper.audit.markup import Child, Markup, el, together
from trouper.audit.report_parts import (
    Row,
    Within,
    across,
    anchor,
    badge,
    clock,
    name,
    perhaps,
    person,
    result_block,
    row,
    table,
    value_block,
    when,
)
from trouper.audit.story import Call, Deed, RunStory, Told
from trouper.core.events import ActionPlanned, ActionReceipted, ApprovalDecided
from trouper.core.state import known
from trouper.narration.line import ERASED_TEXT
from trouper.narration.text import call_text
from trouper_journal import Erased

_GATES: Mapping[str, str] = {
    "free": "no approval needed",
    "output": "hands in the output",
    "hook": "answered by a hook",
    "recorded": "answered from the record of the run it was forked from",
    "simulated": "simulated, never run",
    "limit": "refused at the run's limit",
    "refused": "refused",
}


_NEVER_MADE: Mapping[str, str] = {"simulated": "simulated", "recorded": "from the record", "hook": "by a hook"}
"""Calls that have a result although no tool was called."""


def outcome(call: Call) -> tuple[str, str]:
    """How a call ended, in a word, and the style of that."""
    if call.settled is not None and (call.receipt is None or call.receipt.evidence == "person"):
        return f"settled: {call.settled.verdict}", "doubt"
    if call.receipt is not None and call.plan.gate in _NEVER_MADE:
        return _NEVER_MADE[call.plan.gate], "doubt"
    if call.receipt is not None:
        denied = any(vote.decision == "deny" for _, vote in call.votes) or call.denied is not None
        if call.receipt.outcome == "ok":
            return "done", "ok"
        return ("denied", "bad") if denied and not call.starts else ("failed" if call.starts else "not run", "bad")
    if call.doubt is not None:
        return "in doubt", "doubt"
    if call.plan.gate in {"refused", "limit"}:
        return "refused", "bad"
    if any(vote.decision == "deny" for _, vote in call.votes) or call.denied is not None:
        return "denied", "bad"
    return ("under way", "model") if call.starts or call.child else ("waits", "doubt")


def card(call: Call, within: Within) -> Markup:
    """A call with its arguments, by whose leave it ran, what happened, and its result."""
    plan = call.planned
    word, style = outcome(call)
    head = el(
        "header",
        el("strong", plan.tool),
        badge(word, style),
        el("span", f"{call.plan.effect.value.replace('_', ' ')}", class_="soft small"),
        el("span", plan.action, class_="mono soft"),
    )
    shown: list[Child] = [head, value_block(plan.arguments if plan.arguments is not None else {})]
    # Where it cannot be read whether a hook or a person changed anything, nothing is told of that.
    if plan.asked is not None and not isinstance(plan.asked, Erased):
        shown += [
            el("div", "The model's own arguments, which a hook changed", class_="kicker"),
            value_block(plan.asked),
        ]
    for _, vote in call.votes:
        if vote.arguments is not None and not isinstance(vote.arguments, Erased):
            shown += [el("div", f"Arguments as {name(vote.by)} changed them", class_="kicker")]
            shown += [value_block(vote.arguments)]
    shown += [el("div", "By whose leave", class_="kicker"), el("div", leave(call, within), class_="small")]
    shown += [el("div", "What happened", class_="kicker"), el("ol", [_step(each, call) for each in call.course])]
    if call.receipt is not None:
        shown += [el("div", "What the model was told", class_="kicker"), result_block(call.receipt.text)]
        value = known(call.receipt.value, None)
        if value is not None and not _says(call.receipt):
            shown += [el("div", "The tool's whole result", class_="kicker"), value_block(value)]
    if call.child is not None:
        shown.append(el("p", "It began the run ", within.link(call.child)))
    return el("div", *shown, class_="call", id=anchor(call.id))


def _says(receipt: ActionReceipted) -> bool:
    """Whether what the model was told is the whole result."""
    try:
        return not isinstance(receipt.text, Erased) and json.loads(receipt.text) == receipt.value
    except (ValueError, RecursionError):
        return receipt.text == receipt.value


def _step(told: Told, call: Call) -> Markup:
    line, action = told.line, call.planned.action
    text = line.text.removeprefix(f"{action} ").removeprefix(f"{action}: ")
    name_ = f"{action} {call.planned.tool}"
    text = _without_claim(text.replace(f" ({name_})", "").replace(name_, "it"), line.style == "person")
    if told.type == "action.planned":
        text = "is planned"
    elif told.type == "action.receipted":
        text = "returns" if line.style == "ok" else "ends without success"
    doer = None if line.who == call.planned.tool else el("span", line.who, class_=line.style or None)
    return el("li", el("span", clock(told.at), class_="soft"), el("span", doer, " " if doer else None, text))


def leave(call: Call, within: Within) -> Markup:
    """By whose leave a call ran, or did not."""
    return together([el("div", part) for part in _leave(call, within)])


def _leave(call: Call, within: Within) -> Iterator[Markup]:
    plan = call.plan
    if call.breach is not None:
        yield el("strong", f"NOT as the definition has it: {call.breach}", class_="bad")
    if plan.grounds.policy:
        yield together("policy ", el("span", plan.grounds.policy, class_="mono"), _because(plan.reason))
    for rule in plan.grounds.rules:
        added = within.rules.get(rule)
        maker = together(" made by ", person(added.by), _because(added.reason)) if added else together()
        yield together("standing rule ", el("span", rule, class_="mono"), maker)
    for at, vote in call.votes:
        verb = "approved" if vote.decision == "approve" else "denied"
        note = "" if call.counted else "on record, and not known whether it counted: "
        yield together(note, f"{verb} by ", person(vote.by), f", {when(at)}", _because(vote.reason))
    for at, vote in call.lapsed:
        verb = "approval" if vote.decision == "approve" else "denial"
        gone = together(f"lapsed, and did not count any more: {verb} by ", name(vote.by), f", {when(at)}")
        yield el("span", gone, class_="soft")
    if call.denied is not None:
        lacks = f", for want of {', '.join(call.denied.missing)}" if call.denied.missing else ""
        yield together(f"denied by {call.denied.policy}{lacks}", _because(call.denied.reason or None))
    if not call.votes and not plan.grounds.rules and (plan.gate == "person" or not plan.grounds.policy):
        if plan.gate == "person":
            yield together("nobody has decided")
        else:
            refusal = plan.refusal if plan.gate == "refused" else None
            yield together(_GATES.get(plan.gate, plan.gate), _because(refusal))


def _because(reason: str | Erased | None) -> Markup:
    if reason is None:
        return together()
    return together(": ", perhaps() if isinstance(reason, Erased) else f"“{reason}”")


def calls_table(runs: Sequence[RunStory], within: Within) -> Markup:
    """The calls of runs, run by run, with by whose leave each was made."""
    rows: list[Row] = []
    for run in runs:
        if run.calls and len(runs) > 1:
            agent = run.submitted.agent if run.submitted is not None else "an agent that cannot be read"
            rows.append(across(together(f"{agent}, run ", within.link(run.run))))
        rows += [_call_row(call, within) for call in run.calls.values()]
    if not rows:
        return el("p", "No tool was called.", class_="soft")
    heads = ("Call", "What", "Effect", "By whose leave", "Tries", "Outcome")
    return table(heads, rows, numbers=("Tries",), class_="calls")


def _call_row(call: Call, within: Within) -> Row:
    return row(
        el("td", el("a", call.planned.action, href=f"#{anchor(call.id)}"), class_="mono nowrap"),
        _in_short(call.planned),
        el("td", call.plan.effect.value.replace("_", " "), class_="small"),
        leave(call, within),
        el("td", str(call.starts), class_="num"),
        el("td", badge(*outcome(call)), class_="nowrap"),
    )


def _in_short(plan: ActionPlanned) -> Markup:
    if isinstance(plan.arguments, Erased):
        return el("code", f"{plan.tool}({ERASED_TEXT})")
    return el("code", call_text(plan.tool, plan.arguments, 120))


def deeds_table(deeds: Sequence[tuple[RunStory, Deed]]) -> Markup:
    """What people decided and changed, with their names."""
    several = len({run.run for run, _ in deeds}) > 1
    rows = []
    for run, deed in deeds:
        said = _without_claim(deed.line.text, deed.event.by is not None)
        bound = deed.event.digest.hex()[:16] if isinstance(deed.event, ApprovalDecided) else None
        rows.append(
            row(
                el("td", when(deed.at), class_="nowrap"),
                person(deed.event.by),
                together(el("span", said, class_="bad") if deed.line.style == "bad" else said, _digest(bound)),
                el("a", run.run, href=f"#{anchor(run.run)}", class_="mono small") if several else None,
            )
        )
    return table(("When", "Who", "What", "Run"), rows, class_="deeds")


def _digest(bound: str | None) -> Markup | None:
    return None if bound is None else el("span", f" bound to digest {bound}…", class_="soft small")


def _without_claim(text: str, named: bool) -> str:
    """The sentence without the claim at its end, which stands beside the name."""
    return text.rpartition("  (")[0] or text if named else text
