"""One run in a report: what it is, how it ended, what it spent, what was said, and every event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trouper.audit.markup import Child, Markup, el, together
from trouper.audit.report_calls import calls_table, outcome
from trouper.audit.report_parts import (
    Within,
    anchor,
    clock,
    content_block,
    day,
    erased,
    facts,
    length,
    number,
    person,
    row,
    spoken,
    status_badge,
    table,
    value_block,
    when,
)
from trouper.audit.report_talk import conversation, spend_rows
from trouper.audit.story import RunStory, Told
from trouper.core.events import Limits
from trouper.core.state import RunState, known
from trouper.core.status import status
from trouper.narration.spending import money
from trouper_journal import Erased


def run_section(run: RunStory, within: Within, *, outcome_told: bool) -> Iterator[Markup]:
    """Everything about a run, heading by heading; how it ended only where that was not told before."""
    state = run.state
    title = together("Run of ", run.submitted.agent if run.submitted else "an agent that cannot be read")
    yield el("h2", title, " ", _status(run), id=anchor(run.run))
    yield facts(_facts(run, within))
    if not outcome_told:
        yield from outcome_panels(run)
    if run.calls:
        yield el("h3", "Calls")
        yield calls_table(run, within)
    if run.said:
        yield el("h3", "Conversation")
        yield conversation(run, within)
    if state is not None and state.named:
        yield el("h3", "Named state at the end")
        yield value_block(state.named)
    yield el("h3", "Every event")
    yield events_table(run.told)


def label(run: RunStory) -> str:
    """How a run stands, in a word."""
    if run.archive is not None:
        return "archived"
    return "unreadable" if run.state is None else status(run.state).label


def _status(run: RunStory) -> Markup:
    return status_badge(label(run))


def _facts(run: RunStory, within: Within) -> Iterator[tuple[str, Child]]:
    asked, state = run.submitted, run.state
    yield "Run", el("span", run.run, class_="mono")
    if asked is not None:
        yield "Agent", " > ".join(asked.path) if asked.path else asked.agent
        yield "Asked by", person(asked.by)
    start = run.told[0].at
    yield "Asked at", when(start)
    if run.ended_at is not None:
        yield "Ended at", f"{when(run.ended_at)} (after {length(start, run.ended_at)})"
    if asked is not None:
        if asked.parent is not None:
            yield "Called by", within.link(asked.parent.run, f"{asked.parent.run}/{asked.parent.action}")
        if asked.turn is not None:
            yield "Session", f"turn {asked.turn.number} of {asked.turn.session}"
        if asked.fork is not None and asked.fork.run:
            yield "Forked from", el("span", f"{asked.fork.run} as of event {asked.fork.version}", class_="mono")
        yield "Permissions", ", ".join(asked.grants)
    if state is not None:
        yield "Limits", _limits(state.limits)
    yield (
        "Definition",
        [el("div", el("a", digest, href=f"#{anchor(digest)}", class_="mono")) for digest in run.definitions],
    )


def _limits(limits: Limits | None) -> str:
    if limits is None:
        return ""
    parts = [f"{limits.max_steps} steps"]
    for name in ("model_calls", "tool_calls", "tokens"):
        found = getattr(limits, name, None)
        if isinstance(found, int):
            parts.append(f"{found:,} {name.replace('_', ' ')}")
    return ", ".join(parts)


def outcome_panels(run: RunStory) -> Iterator[Markup]:
    """How a run ended, and what is in doubt or waits for somebody."""
    state = run.state
    if run.archive is not None:
        text = f"Its records were moved to {run.archive}. With that file beside the journal the report is whole."
        yield _panel("doubt", "Archived", text)
        return
    if state is None:
        yield _panel("bad", "Not readable as a whole", "A record cannot be read; how the run stands is not known.")
        return
    if state.erased:
        yield _panel("doubt", "Erased", "Some of what was said has been erased. Facts and digests are still there.")
    if run.ended_at is None or not state.ended:
        yield _panel("doubt", "Not over", f"At its last record the run is {status(state).label.replace('_', ' ')}.")
    elif state.failure is not None and state.phase == "failed":
        yield _panel("bad", f"Failed: {state.failure.replace('_', ' ')}", state.failure_message or "")
    elif state.phase == "succeeded":
        yield el("div", el("div", "Answer", class_="kicker"), _answer(state), class_="panel ok")
    elif state.phase == "cancelled":
        reason = state.cancel.reason if state.cancel is not None else None
        yield _panel("bad", "Cancelled", reason or "")
    open_ones = [call for call in run.calls.values() if outcome(call)[0] == "in doubt"]
    if open_ones:
        links = [el("li", el("a", call.id, href=f"#{anchor(call.id)}"), f" {call.planned.tool}") for call in open_ones]
        yield el(
            "div", el("div", "Nobody knows whether these calls took effect", class_="kicker"), el("ul", links),
            class_="panel doubt",
        )  # fmt: skip


def _answer(state: RunState) -> Markup:
    if state.erased and state.output is not None:
        return el("p", erased())
    if state.answer.verdict == "accepted":
        return value_block(state.answer.value)
    return spoken(state.output or "(nothing)")


def _panel(style: str, title: str, text: str) -> Markup:
    return el("div", el("div", title, class_="kicker"), el("div", text, class_="text"), class_=f"panel {style}")


def request_panel(run: RunStory) -> Markup:
    """What was asked for."""
    if run.submitted is None:
        return together()
    asked = run.submitted.input
    if isinstance(asked, Erased):
        return _panel("", "Request", "[erased]")
    shown = [content_block(message.content) for message in asked]
    return el("div", el("div", "Request", class_="kicker"), *shown, class_="panel")


def events_table(told: Sequence[Told]) -> Markup:
    """Every record in a line."""
    rows: list[Markup] = []
    today = ""
    for each in told:
        if (date := day(each.at)) != today:
            today = date
            rows.append(el("tr", el("td", date, colspan="4"), class_="day"))
        damage = None
        if each.damage is not None:
            damage = el("div", f"damaged: {each.damage}", class_="bad")
        style = each.line.style or None
        rows.append(
            row(
                str(each.position),
                clock(each.at),
                el("td", el("span", each.line.who, class_=style), title=each.type),
                el("td", el("span", each.line.text), damage),
            )
        )
    return table(("Position", "UTC", "Who", "What"), rows, class_="events")


def spend_table(runs: Sequence[RunStory]) -> Markup:
    """What runs spent, by run and model, and in all."""
    heads = ("Run", "Model", "Replies", "Tokens in", "Tokens out", "of them cached", "Cost", "Price")
    rows = []
    for run in runs:
        for cells, _ in spend_rows(run):
            rows.append(row(el("a", run.run, href=f"#{anchor(run.run)}", class_="mono small"), *cells))
    states = [run.state for run in runs if run.state is not None]
    own = [state.own_spent for state in states]
    cost = sum(each.cost for each in own)
    rows.append(
        row(
            "In all",
            "",
            number(sum(len(run.replies) for run in runs)),
            number(sum(each.input_tokens for each in own)),
            number(sum(each.output_tokens for each in own)),
            number(sum(each.cached_tokens for each in own)),
            number(money(cost) if cost else None),
            "",
            class_="total",
        )
    )
    notes: list[Child] = []
    if unknown := sum(each.unknown for each in own):
        notes.append(f"Requests that told no tokens, so that their share is unknown: {unknown:,}. ")
    if assumed := sum(each.assumed_tokens for each in own):
        notes.append(f"Tokens beyond these, by estimate: {assumed:,}. ")
    if unpriced := sum(each.unpriced for each in own):
        notes.append(f"Replies without a price: {unpriced:,}. ")
    calls = sum(each.tool_calls for each in own)
    notes.append(f"Tool calls started: {calls:,}.")
    numbers = heads[2:7]
    return together(table(heads, rows, numbers=numbers), el("p", notes, class_="soft small"))


def asked_text(run: RunStory) -> str:
    """The first line of what was asked for."""
    asked = known(run.submitted.input, ()) if run.submitted is not None else ()
    if not asked:
        return ""
    content = asked[-1].content
    text = content if isinstance(content, str) else ""
    first = " ".join(next((line for line in text.splitlines() if line.strip()), "").split())
    return first if len(first) <= 110 else f"{first[:109]}…"
