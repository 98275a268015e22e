"""One run in a report: what it is, how it ended, what it spent, what was said, and every event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trouper.audit.markup import Child, Markup, el, together
from trouper.audit.report_calls import outcome
from trouper.audit.report_parts import (
    Row,
    Within,
    across,
    anchor,
    clock,
    content_block,
    day,
    erased,
    facts,
    length,
    row,
    spoken,
    status_badge,
    table,
    value_block,
    when,
)
from trouper.audit.report_talk import asker, conversation
from trouper.audit.story import Call, RunStory, Told
from trouper.core.events import Limits
from trouper.core.state import RunState, known
from trouper.core.status import status
from trouper.narration.forks import as_of, new_writes
from trouper.narration.line import ERASED_TEXT, PERHAPS_TEXT
from trouper_journal import Erased


def run_section(run: RunStory, within: Within, *, told: bool) -> Iterator[Markup]:
    """Everything about a run, heading by heading; what it is and how it ended only where that was not told before."""
    state = run.state
    if told:
        yield el("h2", "What happened", id=anchor(run.run))
    else:
        yield el("h2", run_title(run), " ", status_badge(label(run)), id=anchor(run.run))
        yield facts(run_facts(run, within))
        yield from outcome_panels(run)
        yield from breaches_panel(run)
    if run.said:
        yield el("h3", "Conversation")
        yield conversation(run, within)
    if state is not None and state.named:
        yield el("h3", "Named state at the end")
        yield value_block(state.named)
    yield el("h3", "Every event")
    yield events_table(run.told)


def run_title(run: RunStory) -> str:
    """What a run is called."""
    return f"Run of {run.submitted.agent if run.submitted else 'an agent that cannot be read'}"


def label(run: RunStory) -> str:
    """How a run stands, in a word."""
    if run.archive is not None:
        return "archived"
    return "unreadable" if run.state is None else status(run.state).label


def run_facts(run: RunStory, within: Within) -> Iterator[tuple[str, Child]]:
    """What a run is: by whose wish, since when, from where, within which limits."""
    asked, state = run.submitted, run.state
    yield "Run", el("span", run.run, class_="mono")
    if asked is not None and len(asked.path) > 1:
        yield "Agent", " > ".join(asked.path)
    if asked is not None:
        yield "Asked by", asker(asked)
    start = run.told[0].at
    yield "Asked at", when(start)
    if run.ended_at is not None:
        yield "Ended at", f"{when(run.ended_at)} (after {length(start, run.ended_at)})"
    if asked is not None:
        if asked.parent is not None:
            yield "Called by", within.link(f"{asked.parent.run}/{asked.parent.action}")
        if asked.turn is not None:
            yield "Session", f"turn {asked.turn.number} of {asked.turn.session}"
        if asked.fork is not None and asked.fork.run:
            place = f" {as_of(asked.fork)}; {new_writes(asked.fork)}"
            yield "Forked from", together("run ", within.link(asked.fork.run), place)
        yield "Permissions", ", ".join(asked.grants)
    yield "Earlier talk", _earlier(run, within)
    if state is not None:
        yield "Limits", _limits(state.limits)
    yield (
        "Definition",
        [el("div", el("a", digest, href=f"#{anchor(digest)}", class_="mono")) for digest in run.definitions],
    )


def _earlier(run: RunStory, within: Within) -> Markup | None:
    """From which runs its conversation goes on, and whether they are still what they were."""
    base = None if run.state is None else run.state.base
    if base is None:
        return None
    refs = [el("div", "run ", within.link(ref.run), f" {as_of(ref)}") for ref in base.refs]
    if run.difference is not None:
        return together(refs, el("div", run.difference, class_="bad"))
    return together(
        refs,
        el("div", "with the digest that was pinned", class_="ok") if run.before and not run.before_erased else None,
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
        why = "it was erased, or is sealed and its keys are not at hand. Facts and digests are still there."
        yield _panel("doubt", "Not all can be read", f"Some of what was said cannot be read here: {why}")
    if run.ended_at is None or not state.ended:
        yield _panel("doubt", "Not over", f"At its last record the run is {status(state).label.replace('_', ' ')}.")
    elif state.failure is not None and state.phase == "failed":
        yield _panel(
            "bad", f"Failed: {state.failure.replace('_', ' ')}", _said(state, state.failure_message, ERASED_TEXT)
        )
    elif state.phase == "succeeded":
        yield el("div", el("div", "Answer", class_="kicker"), _answer(state), class_="panel ok")
    elif state.phase == "cancelled":
        reason = state.cancel.reason if state.cancel is not None else None
        yield _panel("bad", "Cancelled", _said(state, reason, PERHAPS_TEXT) or "Nobody said why.")
    calls = run.calls.values()
    open_ones = [call for call in calls if outcome(call)[0] == "in doubt"]
    yield from _calls_panel("doubt", "Nobody knows whether these calls took effect", open_ones)


def breaches_panel(run: RunStory) -> Iterator[Markup]:
    """Calls that were not made as the definition says: nobody was asked, or it is another tool."""
    wrong = [call for call in run.calls.values() if call.breach is not None]
    yield from _calls_panel("bad", "These calls are NOT as the definition has it", wrong)


def _calls_panel(style: str, title: str, calls: Sequence[Call]) -> Iterator[Markup]:
    if calls:
        links = [el("li", el("a", call.id, href=f"#{anchor(call.id)}"), f" {call.planned.tool}") for call in calls]
        yield el("div", el("div", title, class_="kicker"), el("ul", links), class_=f"panel {style}")


def _said(state: RunState, text: str | None, gone: str) -> str:
    return text or (gone if state.erased else "")


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
        return _panel("", "Request", ERASED_TEXT)
    shown = [content_block(message.content) for message in asked]
    return el("div", el("div", "Request", class_="kicker"), *shown, class_="panel")


def events_table(told: Sequence[Told]) -> Markup:
    """Every record in a line."""
    rows: list[Row] = []
    today = ""
    for each in told:
        if (date := day(each.at)) != today:
            today = date
            rows.append(across(date))
        damage = None if each.damage is None else el("div", f"damaged: {each.damage}", class_="bad")
        said = None if each.line.text == each.damage else el("span", each.line.text)
        who = el("span", _doer(each), class_=each.line.style or None, title=each.type)
        rows.append(row(f"{each.position:,}", clock(each.at), who, together(said, damage)))
    gaps = told[-1].position - told[0].position + 1 > len(told) if told else False
    note = el(
        "p", "Positions are those in the journal; the ones between belong to other streams.", class_="soft small lead"
    )
    return together(note if gaps else None, table(("Position", "UTC", "Who", "What"), rows, class_="events"))


def _doer(told: Told) -> Child:
    """Who did it. A tool's name looks like one, and not like a person's."""
    of_tool = told.type.startswith(("action.", "child.", "approval.")) and told.line.style != "person"
    return el("code", told.line.who) if of_tool else told.line.who


def asked_text(run: RunStory) -> str:
    """The first line of what was asked for."""
    asked = known(run.submitted.input, ()) if run.submitted is not None else ()
    if not asked:
        return ""
    content = asked[-1].content
    text = content if isinstance(content, str) else ""
    first = " ".join(next((line for line in text.splitlines() if line.strip()), "").split())
    return first if len(first) <= 110 else f"{first[:109]}…"
