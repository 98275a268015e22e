"""The report of a run or session: one HTML file that needs nothing else.

It has no scripts, loads nothing (a content security policy in it forbids both, should anybody ever get one past the
escaping), and prints well. Whatever models, tools and people wrote is text in it and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from trouper.audit.chapters import Chapters, Reading, read_chapters
from trouper.audit.definitions import Document
from trouper.audit.markup import Child, Markup, el, together
from trouper.audit.report_calls import calls_table, deeds_table
from trouper.audit.report_definitions import definition
from trouper.audit.report_parts import Within, anchor, facts, person, row, status_badge, table, when
from trouper.audit.report_proof import proof_of, proof_section
from trouper.audit.report_run import (
    asked_text,
    breaches_panel,
    events_table,
    label,
    outcome_panels,
    request_panel,
    run_facts,
    run_section,
    run_title,
)
from trouper.audit.report_spend import spend_table
from trouper.audit.report_style import STYLE
from trouper.audit.story import RunStory
from trouper.audit.subjects import Subject
from trouper.narration.line import ERASED_TEXT, PERHAPS_TEXT
from trouper_journal import Journal, Plain, Verification

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"


@frozen(slots=False, repr=False, eq=False)
class ReportOptions(Plain):
    """What a report says beside what the journal holds.

    Attributes:
        made_at: When it was made, ns UTC.
        verification: What a check of the whole journal found; None where none was made.
        redact: Leave out what people, models and tools said, as if it had been erased.
        sealed: Tell what is sealed, too, as far as the journal was opened with the keys.
        upto: Tell of no record behind this position; None for as far as the journal goes.
    """

    made_at: int
    verification: Verification | None = None
    redact: bool = False
    sealed: bool = True
    upto: int | None = None


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
    reading = Reading(options.redact, options.sealed, options.upto)
    chapters = await read_chapters(journal, subject, reading, progress)
    for piece in report(chapters, options, journal.id):
        write(_as_withheld(piece) if options.redact else piece)
    return chapters.records


def _as_withheld(piece: str) -> str:
    for text in (ERASED_TEXT, PERHAPS_TEXT):
        piece = piece.replace(text, text.replace("erased", "withheld"))
    return piece


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
    calls = (call.id for run in runs for call in run.calls.values())
    within = Within(frozenset([*(run.run for run in runs), *calls]), chapters.rules)
    yield from _masthead(chapters, options, journal_id, within)
    yield el("h2", "Calls, and by whose leave", id="calls")
    yield calls_table(runs, within)
    deeds = [(run, deed) for run in runs for deed in run.deeds]
    yield el("h2", "Decisions by people", id="people")
    if deeds:
        yield deeds_table(sorted(deeds, key=lambda each: each[1].at))
    else:
        yield el("p", "Nobody decided or changed anything beside asking.", class_="soft")
    yield el("h2", "Spend", id="spend")
    yield spend_table(runs, chapters.definitions)
    if chapters.own:
        yield el("h2", "The session's own events", id="session")
        yield events_table(chapters.own)
    for run in runs:
        yield el("section", *run_section(run, within, told=_leads(chapters, run)), class_="run")
    yield el("h2", "What the agents were told", id="definitions")
    for digest in dict.fromkeys(digest for run in runs for digest in run.definitions):
        yield from definition(digest, chapters.definitions.get(digest) or Document(digest, "missing"))
    yield from proof_section(chapters, options.verification, journal_id)
    yield el(
        "footer", f"Made from the journal {journal_id.hex()} by Trouper, {when(options.made_at)}. All times are UTC."
    )


def _leads(chapters: Chapters, run: RunStory) -> bool:
    """Whether a run is what the report is about, so that its head tells of it."""
    return chapters.subject.kind == "run" and run is chapters.runs[0]


def _masthead(chapters: Chapters, options: ReportOptions, journal_id: bytes, within: Within) -> Iterator[Markup]:
    yield el("div", "Evidence report", class_="kicker")
    first = chapters.runs[0] if chapters.runs else None
    if chapters.subject.kind == "session" or first is None:
        yield el("h1", f"{chapters.subject.kind} {chapters.subject.name}".capitalize())
        yield facts([*_session_facts(chapters), *_common_facts(chapters, options, journal_id)])
        yield _contents(chapters)
        if chapters.runs:
            yield _turns(chapters)
        return
    yield el("h1", run_title(first), " ", status_badge(label(first)))
    yield facts([*run_facts(first, within), *_common_facts(chapters, options, journal_id)])
    yield request_panel(first)
    yield from outcome_panels(first)
    yield from breaches_panel(first)
    yield _contents(chapters)


def _session_facts(chapters: Chapters) -> Iterator[tuple[str, Child]]:
    agents = dict.fromkeys(run.submitted.agent for run in chapters.runs if run.submitted is not None)
    yield "Agents", ", ".join(agents)
    yield "Runs", f"{len(chapters.runs):,}"
    if chapters.own:
        yield "Time", f"{when(chapters.own[0].at)} to {when(chapters.own[-1].at)}"


def _common_facts(chapters: Chapters, options: ReportOptions, journal_id: bytes) -> Iterator[tuple[str, Child]]:
    proof = proof_of(chapters, options.verification)
    yield "Journal", el("span", journal_id.hex(), class_="mono")
    yield "Proof", together(el("span", proof.text, class_=proof.style), " ", el("a", "Details", href="#proof"))
    if options.redact:
        yield (
            "Withheld",
            "What people, models and tools said is left out of this report, whether or not the journal holds it.",
        )


def _contents(chapters: Chapters) -> Markup:
    links = [("calls", "Calls, and by whose leave"), ("people", "Decisions by people"), ("spend", "Spend")]
    if chapters.own:
        links.append(("session", "The session's own events"))
    for run in chapters.runs:
        if _leads(chapters, run):
            links.append((anchor(run.run), "What happened"))
            continue
        about = asked_text(run)
        links.append((anchor(run.run), f"{run_title(run)}: {about}" if about else f"{run_title(run)}, {run.run}"))
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
