"""Reading what a report tells: the runs of a run or session as stories, and what they refer to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from attrs import define, evolve, field, frozen

from trouper.audit.definitions import Document, document_of
from trouper.audit.elsewhere import Elsewhere, broken
from trouper.audit.lines import damage_of
from trouper.audit.story import LONGEST_LINE, RunStory, Told, told_of
from trouper.audit.subjects import Subject, runs_of
from trouper.core.definition import stream_of
from trouper.core.events import ActionPlanned, ActionReplanned, DefinitionRecorded, RuleAdded
from trouper.core.evolve_session import lead_of
from trouper.core.rule_events import APPROVALS
from trouper.core.state import RunState
from trouper.errors import JournalCorrupt, UnknownEvent, UnknownRun
from trouper.narration.narrate import Narrator
from trouper_journal import Damaged, Journal, Plain, Record


@define(eq=False, repr=False)
class Chapters:
    """What a report tells.

    Attributes:
        subject: What it is about.
        runs: Its runs, each before those below it.
        definitions: Definition documents by digest, as far as they are there.
        rules: Standing rules that stood in for people, by id.
        own: The session's own records.
        records: How many records were read.
        last: Position of the last of them.
        damaged: How many of them are damaged or unreadable.
    """

    subject: Subject
    runs: list[RunStory] = field(factory=list)
    definitions: dict[str, Document] = field(factory=dict)
    rules: dict[str, RuleAdded] = field(factory=dict)
    own: list[Told] = field(factory=list)
    records: int = 0
    last: int = 0
    damaged: int = 0


@frozen(slots=False, repr=False, eq=False)
class Reading(Plain):
    """How much of a journal is read for a report.

    Attributes:
        redact: Read content as if it had been erased.
        sealed: Open what is sealed, as far as there are keys.
        upto: Read no record behind this position; None for as far as the journal goes.
    """

    redact: bool = False
    sealed: bool = True
    upto: int | None = None


async def read_chapters(
    journal: Journal,
    subject: Subject,
    reading: Reading,
    progress: Callable[[int, int], None] | None = None,
) -> Chapters:
    """Read what a report tells; memory grows with the subject, because a report shows all of it.

    Args:
        journal: The journal, opened with the registry of the runtime's events.
        subject: The run or session.
        reading: How much of it is read.
        progress: Called after each run with the runs read and their total.

    Raises:
        UnknownRun, UnknownSession: The journal has no such subject.
        StorageBusy, JournalCorrupt, JournalBroken: The storage cannot be read; a record that is damaged in itself is
            told as such.
    """
    reader = _Reader(journal, Chapters(subject), reading, Elsewhere(journal))
    names = await runs_of(journal, subject)
    for number, name in enumerate(names, 1):
        await reader.read_run(name)
        if progress is not None:
            progress(number, len(names))
    await reader.read_session()
    await reader.read_definitions()
    await reader.read_rules()
    return reader.chapters


@define(eq=False, repr=False)
class _Reader:
    journal: Journal
    chapters: Chapters
    reading: Reading
    elsewhere: Elsewhere

    async def records(self, stream: str) -> AsyncGenerator[tuple[Record, object | None, str | None], None]:
        """A stream's records, each with its event and what is wrong with it."""
        async for record in self.journal.read(stream):
            if self.reading.upto is None or record.position <= self.reading.upto:
                yield record, *self._event(record)

    def _event(self, record: Record) -> tuple[object | None, str | None]:
        if isinstance(record, Damaged):
            return None, record.problem
        damage = damage_of(self.journal.id, record)
        event: object | None = None
        try:
            event = self.journal.registry.decode(self._as_read(record))
        except UnknownEvent:
            pass  # which the line says
        except JournalCorrupt as error:
            damage = damage or str(error)
        return event, damage

    def _as_read(self, record: Record) -> Record:
        if self.reading.redact and record.content:
            return evolve(record, key_id="withheld", opened=None)
        return record if self.reading.sealed or record.key_id is None else evolve(record, opened=None)

    def count(self, record: Record, damage: str | None) -> None:
        """The report tells of a record."""
        self.chapters.records += 1
        self.chapters.last = max(self.chapters.last, record.position)
        self.chapters.damaged += damage is not None

    async def read_run(self, name: str) -> None:
        story = RunStory(name, RunState(name))
        async with aclosing(self.records(f"run/{name}")) as records:
            async for record, event, damage in records:
                self.count(record, damage)
                before = story.state
                story.hear(record, event, damage)
                if isinstance(event, ActionPlanned | ActionReplanned) and before is not None:
                    call = story.calls[event.action]
                    call.breach = await broken(self.elsewhere, before, event, record.position) or call.breach
        if story.told:
            await self._read_history(story)
            self.chapters.runs.append(story)

    async def _read_history(self, story: RunStory) -> None:
        """What it started from. Keys that a journal has would open that, too, so that it is only said where it is."""
        withheld = self.reading.redact or not (self.reading.sealed or self.journal.keys is None)
        if story.state is None or withheld:
            return
        try:
            lead, base = lead_of(story.state), story.state.base
            pieces = [] if base is None else await self.elsewhere.histories.pieces(base.refs)
            # Of what was said in a run that was erased nobody knows which messages they were.
            story.before_erased = any(piece.erased for piece in pieces) or (lead is not None and story.state.erased)
            read = [message for piece in pieces if not piece.erased for message in piece.messages]
            story.before = tuple(read if lead is None or story.state.erased else [lead, *read])
            story.difference = await self.elsewhere.histories.difference(story.state)
        except (UnknownRun, UnknownEvent, JournalCorrupt) as error:
            story.difference = str(error)

    async def read_session(self) -> None:
        if self.chapters.subject.kind == "session":
            narrator = Narrator(LONGEST_LINE)
            async with aclosing(self.records(self.chapters.subject.stream)) as records:
                async for record, event, damage in records:
                    self.count(record, damage)
                    self.chapters.own.append(told_of(narrator, record, event, damage))

    async def read_definitions(self) -> None:
        for digest in dict.fromkeys(digest for run in self.chapters.runs for digest in run.definitions):
            async with aclosing(self.records(stream_of(digest))) as records:
                async for record, event, damage in records:
                    self.count(record, damage)
                    if isinstance(event, DefinitionRecorded):
                        self.chapters.definitions[digest] = document_of(digest, event)

    async def read_rules(self) -> None:
        wanted = {rule for run in self.chapters.runs for call in run.calls.values() for rule in call.plan.grounds.rules}
        if not wanted:
            return
        async with aclosing(self.records(APPROVALS)) as records:
            async for record, event, damage in records:
                if getattr(event, "rule", None) in wanted:
                    self.count(record, damage)
                if isinstance(event, RuleAdded) and event.rule in wanted:
                    self.chapters.rules[event.rule] = event
