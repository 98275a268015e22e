"""The report of a run or session: one HTML file that needs nothing else.

It has no scripts, loads nothing (a content security policy in it forbids both, should anybody ever get one past the
escaping), and prints well. Whatever models, tools and people wrote is text in it and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from attrs import frozen

from trouper.audit.chapters import Chapters, Document, read_chapters
from trouper.audit.markup import Child, Markup, el, together
from trouper.audit.report_calls import deeds_table
from trouper.audit.report_parts import Within, anchor, facts, length, person, row, status_badge, table, when
from trouper.audit.report_run import (
    asked_text,
    events_table,
    label,
    outcome_panels,
    request_panel,
    run_section,
    spend_table,
)
from trouper.audit.report_style import STYLE
from trouper.audit.story import RunStory, Told
from trouper.audit.subjects import Subject
from trouper.narration.plain import plain
from trouper.narration.text import count
from trouper_journal import Erased, Journal, Plain, Value, Verification

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"


@frozen(slots=False, repr=False, eq=False)
class ReportOptions(Plain):
    """What a report says beside what the journal holds.

    Attributes:
        made_at: When it was made, ns UTC.
        verification: What a check of the whole journal found; None where none was made.
        redact: Leave out what people, models and tools said, as if it had been erased.
    """

    made_at: int
    verification: Verification | None = None
    redact: bool = False


async def write_report(
    journal: Journal,
    subject: Subject,
    write: Callable[[str], object],
    options: ReportOptions,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the report of a run or session as HTML. Cancelling leaves what was written so far.

    Memory grows with the subject, not with the journal.

    Args:
        journal: The journal, opened with the registry of the runtime's events.
        subject: The run or session.
        write: Called with piece after piece; they are ASCII where the journal's texts are, else UTF-8.
        options: What it says beside.
        progress: Called after each run read, with their number and total.

    Returns:
        How many records it tells of.

    Raises:
        UnknownRun, UnknownSession: The journal has no such subject.
        StorageBusy, JournalCorrupt, JournalBroken: The storage cannot be read. A record that is damaged in itself is
            shown as such.
    """
    chapters = await read_chapters(journal, subject, redact=options.redact, progress=progress)
    for piece in report(chapters, options, journal.id):
        write(piece.replace("[erased", "[withheld") if options.redact else piece)
    return chapters.records


def report(chapters: Chapters, options: ReportOptions, journal_id: bytes) -> Iterator[str]:
    """The report, piece by piece."""
    title = f"Evidence report: {chapters.subject.kind} {chapters.subject.name}"
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n'
    yield el("meta", charset="utf-8")
    yield el("meta", http_equiv="Content-Security-Policy", content=_POLICY)
    yield el("meta", name="viewport", content="width=device-width, initial-scale=1")
    yield el("meta", name="referrer", content="no-referrer")
    yield el("title", title)
    yield el("style", STYLE)
    yield "\n</head>\n<body>\n"
    yield from _body(chapters, options, journal_id)
    yield "</body>\n</html>\n"


def _body(chapters: Chapters, options: ReportOptions, journal_id: bytes) -> Iterator[Markup]:
    runs = chapters.runs
    within = Within(frozenset(run.run for run in runs), chapters.rules)
    yield from _masthead(chapters, options, journal_id)
    deeds = [(run, deed) for run in runs for deed in run.deeds]
    yield el("h2", "Decisions by people", id="people")
    if deeds:
        yield deeds_table(sorted(deeds, key=lambda each: each[1].at), several=len(runs) > 1)
    else:
        yield el("p", "Nobody decided or changed anything beside asking.", class_="soft")
    yield el("h2", "Spend", id="spend")
    yield spend_table(runs)
    if chapters.own:
        yield el("h2", "The session's own events", id="session")
        yield events_table(chapters.own)
    for run in runs:
        told = chapters.subject.kind == "run" and run is runs[0]
        yield el("section", *run_section(run, within, outcome_told=told), class_="run")
    yield el("h2", "What the agents were told", id="definitions")
    for digest in dict.fromkeys(digest for run in runs for digest in run.definitions):
        yield from _definition(digest, chapters.definitions.get(digest))
    yield from _proof(chapters, options, journal_id)
    yield el(
        "footer", f"Made from the journal {journal_id.hex()} by Trouper, {when(options.made_at)}. All times are UTC."
    )


def _masthead(chapters: Chapters, options: ReportOptions, journal_id: bytes) -> Iterator[Markup]:
    first = chapters.runs[0] if chapters.runs else None
    yield el("div", "Evidence report", class_="kicker")
    if chapters.subject.kind == "session" or first is None:
        yield el("h1", f"Session {chapters.subject.name}")
        yield facts(_session_facts(chapters, options, journal_id))
        yield _contents(chapters)
        if chapters.runs:
            yield _turns(chapters)
        return
    agent = first.submitted.agent if first.submitted else "an agent"
    yield el("h1", asked_text(first) or f"A run of {agent}", " ", status_badge(label(first)))
    yield facts(_run_facts(chapters, first, options, journal_id))
    yield request_panel(first)
    yield from outcome_panels(first)
    yield _contents(chapters)


def _run_facts(
    chapters: Chapters, run: RunStory, options: ReportOptions, journal_id: bytes
) -> Iterator[tuple[str, Child]]:
    yield "Run", el("span", run.run, class_="mono")
    if run.submitted is not None:
        yield "Agent", run.submitted.agent
        yield "Asked by", person(run.submitted.by)
    last = run.told[-1].at
    yield "Time", f"{when(run.told[0].at)} to {when(last)} ({length(run.told[0].at, last)})"
    if len(chapters.runs) > 1:
        yield "Sub-agents", count(len(chapters.runs) - 1, "run")
    yield from _common_facts(chapters, options, journal_id)


def _session_facts(chapters: Chapters, options: ReportOptions, journal_id: bytes) -> Iterator[tuple[str, Child]]:
    yield "Session", el("span", chapters.subject.name, class_="mono")
    agents = dict.fromkeys(run.submitted.agent for run in chapters.runs if run.submitted is not None)
    yield "Agents", ", ".join(agents)
    yield "Runs", f"{len(chapters.runs):,}"
    if chapters.own:
        yield "Time", f"{when(chapters.own[0].at)} to {when(chapters.own[-1].at)}"
    yield from _common_facts(chapters, options, journal_id)


def _common_facts(chapters: Chapters, options: ReportOptions, journal_id: bytes) -> Iterator[tuple[str, Child]]:
    yield "Journal", el("span", journal_id.hex(), class_="mono")
    yield "Proof", together(_proof_line(chapters, options), " ", el("a", "details", href="#proof"))
    if options.redact:
        yield "Withheld", "What people, models and tools said is left out of this report; it stands in the journal."


def _proof_line(chapters: Chapters, options: ReportOptions) -> Markup:
    found = options.verification
    if chapters.damaged:
        return el("span", f"{chapters.damaged:,} of {chapters.records:,} records are damaged.", class_="bad")
    each = f"All {chapters.records:,} records in this report have their digests"
    if found is None:
        return el("span", f"{each}. The whole journal was not verified for it.", class_="doubt")
    if not found.ok:
        return el("span", f"{each}, but the journal is inconsistent: {found.found:,} problems.", class_="bad")
    return el("span", f"{each}, and the journal is {found.grade}.", class_="ok")


def _contents(chapters: Chapters) -> Markup:
    links: list[tuple[str, str]] = [("people", "Decisions by people"), ("spend", "Spend")]
    if chapters.own:
        links.append(("session", "The session's own events"))
    for run in chapters.runs:
        agent = run.submitted.agent if run.submitted else "?"
        links.append((anchor(run.run), f"Run of {agent}: {asked_text(run) or run.run}"))
    links += [("definitions", "What the agents were told"), ("proof", "Proof")]
    items = [el("li", el("a", text, href=f"#{place}")) for place, text in links]
    return el("nav", el("div", "Contents", class_="kicker"), el("ol", items))


def _turns(chapters: Chapters) -> Markup:
    rows = []
    for run in chapters.runs:
        turn = run.submitted.turn if run.submitted is not None else None
        if turn is None:
            continue
        rows.append(
            row(
                str(turn.number),
                el("a", asked_text(run) or run.run, href=f"#{anchor(run.run)}"),
                person(run.submitted.by) if run.submitted is not None else "",
                el("td", when(run.told[0].at), class_="nowrap"),
                status_badge(label(run)),
            )
        )
    return table(("Turn", "Request", "Asked by", "When", "Status"), rows)


# ---- definitions


def _definition(digest: str, document: Document | None) -> Iterator[Markup]:
    yield el("h3", "Definition ", el("span", digest, class_="mono small"), id=anchor(digest))
    if document is None:
        yield el("p", "Its document is not in the journal.", class_="bad")
        return
    if isinstance(document, Erased):
        yield el("p", "[erased]", class_="dim")
        return
    contract, prose = _part(document, "contract"), _part(document, "prose")
    model = _part(prose, "model")
    yield facts(
        [
            ("Agent", _text(contract.get("name"))),
            ("Model", ", ".join(_text(value) for value in model.values() if isinstance(value, str))),
        ]
    )
    instructions = prose.get("instructions")
    if instructions:
        said = instructions if isinstance(instructions, str) else _text(instructions)
        yield el("div", el("div", "Instructions", class_="kicker"), el("div", said, class_="text"), class_="panel")
    tools, described = _part(contract, "tools"), _part(prose, "tools")
    if tools:
        yield table(
            ("Tool", "What for", "Effect", "Approval"),
            [_tool_row(name, _part(tools, name), _part(described, name)) for name in tools],
        )
    yield el("div", "The whole document", class_="kicker")
    yield el("pre", json.dumps(plain(dict(document)), indent=1, ensure_ascii=False), class_="document")


def _tool_row(name: str, tool: Mapping[str, Value], described: Mapping[str, Value]) -> Markup:
    return row(
        el("code", name),
        _text(described.get("description")),
        _text(tool.get("effect")).replace("_", " "),
        _text(tool.get("gate")),
    )


def _part(document: Mapping[str, Value], key: str) -> Mapping[str, Value]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _text(value: Value) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


# ---- proof


def _proof(chapters: Chapters, options: ReportOptions, journal_id: bytes) -> Iterator[Markup]:
    found = options.verification
    yield el("h2", "Proof", id="proof")
    yield el("p", _proof_line(chapters, options))
    rows: list[tuple[str, Child]] = [("Journal", el("span", journal_id.hex(), class_="mono"))]
    if found is not None:
        rows += [
            ("Grade", found.grade),
            ("Records in the journal", f"{found.records:,}"),
            ("Merkle root over them", el("span", found.root, class_="mono")),
        ]
    yield facts(rows)
    if found is not None and found.problems:
        items = [el("li", f"position {each.position}: {each.message}") for each in found.problems[:20]]
        yield el("ul", items)
    yield el(
        "p",
        "This page is for reading: whoever has it can edit it. What proves is the journal, or an evidence bundle made "
        "from it. The leaves below are what those must give for the same positions (RFC 6962 leaf hashes; the page on "
        "the journal's format tells how they are computed).",
        class_="soft small",
    )
    leaves: list[Markup] = []
    for run in chapters.runs:
        leaves.append(el("tr", el("td", f"run/{run.run}", colspan="4"), class_="day"))
        leaves += map(_leaf_row, run.told)
    yield table(("Position", "Version", "Event", "Leaf"), leaves, class_="leaves")


def _leaf_row(told: Told) -> Markup:
    return row(str(told.position), str(told.version), told.type, el("td", told.leaf.hex(), class_="mono"))
