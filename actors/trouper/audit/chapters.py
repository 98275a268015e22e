"""Reading what a report tells: the runs of a run or session as stories, and what they refer to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, evolve, field

from trouper.audit.lines import damage_of
from trouper.audit.story import LONGEST_LINE, RunStory, Told, told_of
from trouper.audit.subjects import Subject, runs_of
from trouper.core.definition import stream_of
from trouper.core.events import DefinitionRecorded, RuleAdded
from trouper.core.rule_events import APPROVALS
from trouper.core.state import RunState
from trouper.errors import JournalCorrupt, UnknownEvent, UnknownRun
from trouper.narration.narrate import Narrator
from trouper.runtime.histories import Histories
from trouper_journal import ERASED, Erased, Journal, Record, Value

Document = Mapping[str, Value] | Erased


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
        damaged: How many of them are damaged or unreadable.
    """

    subject: Subject
    runs: list[RunStory] = field(factory=list)
    definitions: dict[str, Document] = field(factory=dict)
    rules: dict[str, RuleAdded] = field(factory=dict)
    own: list[Told] = field(factory=list)
    records: int = 0
    damaged: int = 0


async def read_chapters(
    journal: Journal,
    subject: Subject,
    *,
    redact: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Chapters:
    """Read what a report tells; memory grows with the subject, because a report shows all of it.

    Args:
        journal: The journal, opened with the registry of the runtime's events.
        subject: The run or session.
        redact: Read content as if it had been erased.
        progress: Called after each run with the runs read and their total.

    Raises:
        UnknownRun, UnknownSession: The journal has no such subject.
        StorageBusy, JournalCorrupt, JournalBroken: The storage cannot be read; a record that is damaged in itself is
            told as such.
    """
    reader = _Reader(journal, Chapters(subject), redact, Histories(journal))
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
    redact: bool
    histories: Histories

    def event(self, record: Record) -> tuple[object | None, str | None]:
        """The event in a record, and what is wrong with it."""
        self.chapters.records += 1
        damage = damage_of(self.journal.id, record)
        event: object | None = None
        try:
            shown = evolve(record, key_id="withheld", opened=None) if self.redact and record.content else record
            event = self.journal.registry.decode(shown)
        except UnknownEvent:
            pass  # which the line says
        except JournalCorrupt as error:
            damage = damage or str(error)
        self.chapters.damaged += damage is not None
        return event, damage

    async def read_run(self, name: str) -> None:
        story = RunStory(name, RunState(name))
        async for record in self.journal.read(f"run/{name}"):
            story.hear(record, *self.event(record))
        if story.state is not None and not self.redact:
            try:
                story.before = await self.histories.before(story.state)
            except (UnknownRun, UnknownEvent, JournalCorrupt):
                story.before = ()
        self.chapters.runs.append(story)

    async def read_session(self) -> None:
        if self.chapters.subject.kind == "session":
            narrator = Narrator(LONGEST_LINE)
            async for record in self.journal.read(self.chapters.subject.stream):
                self.chapters.own.append(told_of(narrator, record, *self.event(record)))

    async def read_definitions(self) -> None:
        for digest in dict.fromkeys(digest for run in self.chapters.runs for digest in run.definitions):
            async for record in self.journal.read(stream_of(digest)):
                event, _ = self.event(record)
                if isinstance(event, DefinitionRecorded):
                    self.chapters.definitions[digest] = ERASED if isinstance(event.document, Erased) else event.document

    async def read_rules(self) -> None:
        wanted = {rule for run in self.chapters.runs for call in run.calls.values() for rule in call.plan.grounds.rules}
        if not wanted:
            return
        async for record in self.journal.read(APPROVALS):
            event, _ = self.event(record)
            if isinstance(event, RuleAdded) and event.rule in wanted:
                self.chapters.rules[event.rule] = event
