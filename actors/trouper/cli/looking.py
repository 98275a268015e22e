"""Commands that look: ``runs``, ``show``, ``tail``. None of them changes anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click
from attrs import define, field, frozen
from rich.text import Text

from trouper._clock import SystemClock
from trouper.cli.archives import tell_left_out, with_archives
from trouper.cli.choosing import Chosen, choose, place
from trouper.cli.codes import Exit
from trouper.cli.command import command, paged_command, run_async
from trouper.cli.damage import KEEP_GOING
from trouper.cli.journals import event_of, find_run, opened_to_read, record_at
from trouper.cli.output import Output, grid, styled
from trouper.cli.timeline import STYLES, Told, footer, header, label_text, timeline
from trouper.core.effect_of import without_effect
from trouper.core.events import RunSubmitted
from trouper.core.family import parent_of
from trouper.core.made_up import folded
from trouper.core.state import RunState
from trouper.core.status import MARKS
from trouper.errors import UnknownRun
from trouper.narration.line import Line, in_vain
from trouper.narration.narrate import Narrator
from trouper.narration.plain import SECOND, moment, record_json, state_json
from trouper.narration.text import CUT, age, clean, count
from trouper.narration.when import when
from trouper.runtime import ChildRun
from trouper.runtime.descent import descendants
from trouper.runtime.domains import is_withheld, why_withheld
from trouper_journal import Archived, Damaged, Journal, JournalCorrupt, Record, StreamHead
from trouper_journal.archive import refuse_archived

# Whether it can be read is the storage's to say, with the storage's exit code.
_JOURNAL = click.argument("journal", type=click.Path(path_type=Path, readable=False))
_ARCHIVES = click.option(
    "--archive",
    multiple=True,
    expose_value=False,
    callback=with_archives,
    type=click.Path(path_type=Path, readable=False),
    help="An archive of the journal, for what was moved to it; again for more.",
)


def JOURNAL(body: Callable[..., Exit]) -> Callable[..., Exit]:  # noqa: N802 -- a decorator, like click's
    """Gives a command the journal that it is about, and archives to read beside it."""
    return _JOURNAL(_ARCHIVES(body))


# ---- runs


@frozen
class _Row:
    head: StreamHead
    agent: str
    asked_at: int

    @property
    def run(self) -> str:
        return self.head.stream.removeprefix("run/")


@paged_command
@JOURNAL
@KEEP_GOING
@click.option("--label", help="Only runs with this label, such as awaiting_approval; those of sub-agents, too.")
@click.option(
    "--all", "everything", is_flag=True, help="The runs of sub-agents, too, each under the run that called it."
)
@click.option(
    "-n", "number", default=50, show_default=True, type=click.IntRange(min=0), help="How many, the newest; 0 for all."
)
def runs(output: Output, /, journal: Path, *, label: str | None, number: int, everything: bool) -> Exit:
    """List the runs of a journal, oldest first."""

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            chosen = await choose(opened_journal, label, number, everything=everything)
            await _list_runs(output, opened_journal, chosen, label)
            await tell_left_out(output, opened_journal)
        return Exit.OK

    return run_async(main)


async def _list_runs(output: Output, journal: Journal, chosen: Chosen, label: str | None) -> None:
    if output.as_json:
        for head in chosen.heads:
            if output.gone:
                break
            output.json(_row_json(await _row(journal, head)))
        return
    if chosen.heads:
        _print_rows(output, [await _row(journal, head) for head in chosen.heads], nested=chosen.nested)
    if chosen.older:
        output.note(styled(f"{chosen.older:,} older runs are not shown; -n 0 shows all", "dim"))
    elif not chosen.labels:
        output.nothing("no runs yet")
    elif not chosen.heads:
        others = ", ".join(f"{clean(name)} ({number})" for name, number in chosen.labels.most_common())
        output.nothing(f"no run has the label {label}; labels here: {others}")
    if chosen.below:
        output.note(styled(f"{count(chosen.below, 'run')} of sub-agents not shown; --all shows them", "dim"))


async def _row(journal: Journal, head: StreamHead) -> _Row:
    first = await record_at(journal, head, 1)
    event = event_of(journal, first)
    unknown = "[archived]" if isinstance(first, Archived) else "[damaged]" if isinstance(first, Damaged) else "?"
    return _Row(head, event.agent if isinstance(event, RunSubmitted) else unknown, first.recorded_at)


def _print_rows(output: Output, rows: list[_Row], *, nested: bool) -> None:
    now = SystemClock().now()
    table = grid()
    table.add_column("run", no_wrap=True)
    table.add_column("agent", overflow="fold")
    table.add_column("status", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("events", justify="right", no_wrap=True)
    table.show_header = True
    table.header_style = "dim"
    for row in rows:
        asked = age((now - row.asked_at) / SECOND)
        indent = "  " * row.run.count("~") if nested else ""
        table.add_row(
            indent + clean(row.run), clean(row.agent), label_text(row.head.label), asked, f"{row.head.version:,}"
        )
    output.result(table)


def _row_json(row: _Row) -> dict[str, object]:
    return {
        "run": row.run,
        "parent": parent_of(row.run) or None,
        "agent": row.agent,
        "label": row.head.label,
        "asked_at": moment(row.asked_at),
        "records": row.head.version,
        "position": row.head.position,
        "wake_at": None if row.head.wake_at is None or row.head.wake_at in MARKS else moment(row.head.wake_at),
    }


# ---- show


@paged_command
@JOURNAL
@KEEP_GOING
@click.argument("run_id", metavar="RUN")
@click.option("--full", is_flag=True, help="Shorten nothing.")
def show(output: Output, /, journal: Path, run_id: str, full: bool) -> Exit:
    """Tell the story of a run. RUN is its id, or as much of its beginning as no other run shares."""

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            name = await find_run(opened_journal, run_id)
            story = await read_story(opened_journal, name, full=full)
            below = await descendants(opened_journal, name)
        if output.as_json:
            told = {"run": story.run} if story.state is None else state_json(story.state)
            output.json({**told, "children": [below_json(child) for child in below], "events": story.events})
        else:
            print_story(output, story, journal)
            print_below(output, below)
        return Exit.OK

    return run_async(main)


@define
class Story:
    """A run, read.

    Attributes:
        run: Its id.
        state: How it stands; None where an event of a newer release, which this one cannot fold, is in it.
        lines: Its events as sentences.
        events: Its events as JSON.
        withheld: Why some of its content cannot be read here; None where all of it can.
        misfit: Why it cannot be folded, where no runtime has written it so.
    """

    run: str
    state: RunState | None
    lines: list[Told] = field(factory=list)
    events: list[dict[str, object]] = field(factory=list)
    withheld: str | None = None
    misfit: str | None = None


async def read_story(journal: Journal, name: str, *, full: bool = False) -> Story:
    """Read a run from its beginning to now.

    Args:
        journal: The journal.
        name: The run's id.
        full: Whether nothing is shortened.

    Raises:
        UnknownRun: There is none of that id.
        RecordArchived: It is in an archive that is not at hand.
    """
    await refuse_archived(journal, f"run/{name}")
    narrator = Narrator(None if full else CUT)
    story = Story(name, RunState(name))
    async for record in journal.read(f"run/{name}"):
        event = event_of(journal, record)
        if story.withheld is None and is_withheld(record):
            story.withheld = why_withheld(record)
        before = story.state
        story.state = None if before is None or event is None else _folded(story, before, record, event)
        story.events.append(record_json(record, event))
        handover = narrator.handover(record)
        if handover is not None:
            story.lines.append(Told(record.recorded_at, handover))
        line = narrator.tell(record, event)
        if before is not None and story.state is not None and without_effect(before, story.state, event):
            line = in_vain(line)
        story.lines.append(Told(record.recorded_at, line))
    if not story.lines:
        raise UnknownRun(f"there is no run {name} in this journal")
    return story


def _folded(story: Story, before: RunState, record: Record, event: object) -> RunState | None:
    try:
        return folded(before, record, event)
    except JournalCorrupt as error:
        story.misfit = str(error)
        return None


def print_story(output: Output, story: Story, path: Path) -> None:
    """Print a run: what it is, its timeline, and how it ended or what it waits for."""
    start = story.lines[0].at
    if story.state is not None:
        output.result(*header(story.state, start))
    output.result(Text(), timeline(story.lines, start))
    if story.state is not None:
        output.result(Text(), *footer(story.state, path))
    if story.misfit is not None:
        output.note(styled(f"how it stands cannot be told: {clean(story.misfit)}", "red"))
    if story.withheld is not None:
        output.note(styled(f"what is [erased] cannot be read here: {clean(story.withheld)}", "yellow"))


def below_json(child: ChildRun) -> dict[str, object]:
    """A run that a sub-agent is, as JSON."""
    return {"run": child.run, "agent": child.agent, "path": list(child.path), "label": child.status}


def print_below(output: Output, below: Sequence[ChildRun]) -> None:
    """Print how the runs stand that a run's sub-agents are."""
    if not below:
        return
    output.result(Text(), styled("Sub-agents:", "bold"))
    table = grid()
    for _ in range(3):
        table.add_column(no_wrap=True)
    for child in sorted(below, key=lambda child: place(child.run)):
        indent = "  " * (child.run.count("~") - below[0].run.count("~") + 1)
        table.add_row(indent + clean(child.run), clean(child.agent), label_text(child.status))
    output.result(table)


# ---- tail


@define
class _Teller:
    """Tells of many streams at once; knows the recent ones.

    Attributes:
        last: The stream that was told of last.
        day: The day that was told of last, with its distance from UTC.
    """

    journal: Journal
    _narrators: dict[str, Narrator] = field(factory=dict)
    _limit: int = 1000
    last: str = ""
    day: str = ""

    async def tell(self, record: Record, event: object | None) -> Line:
        narrator = self._narrators.pop(record.stream, None)
        if narrator is None:
            narrator = Narrator()
            if record.version > 1 and record.stream.startswith("run/"):
                await self._catch_up(narrator, record)
        self._narrators[record.stream] = narrator
        if len(self._narrators) > self._limit:
            del self._narrators[next(iter(self._narrators))]
        return narrator.tell(record, event)

    async def _catch_up(self, narrator: Narrator, record: Record) -> None:
        """Lines refer to what was told before: here it was told before anybody listened."""
        async for earlier in self.journal.read(record.stream):
            if earlier.version >= record.version:
                break
            narrator.tell(earlier, event_of(self.journal, earlier))


@command
@JOURNAL
@KEEP_GOING
@click.option("--after", type=click.IntRange(min=0), help="Begin behind this position.")
@click.option("-n", "number", default=10, show_default=True, type=click.IntRange(min=0), help="Begin with the last N.")
@click.option("--run", "run_id", metavar="RUN", help="Only this run.")
@click.option("--no-follow", is_flag=True, help="End with what is there.")
def tail(
    output: Output, /, journal: Path, *, after: int | None, number: int, run_id: str | None, no_follow: bool
) -> Exit:
    """Print what is recorded, live, whoever records it. Ends on Ctrl-C."""

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            stream = None if run_id is None else f"run/{await find_run(opened_journal, run_id)}"
            begin = await _before_last(opened_journal, stream, number) if after is None else after
            teller, seen = _Teller(opened_journal), False
            async for record in opened_journal.read_all(after=begin) if no_follow else opened_journal.tail(after=begin):
                if stream is None or record.stream == stream:
                    seen = True
                    await _print_record(output, opened_journal, teller, record)
                if output.gone:
                    break
            if not seen:
                output.nothing("no records yet" if after is None else f"no records behind position {after}")
            if stream is None:
                await tell_left_out(output, opened_journal, after=begin)
        return Exit.OK

    return run_async(main)


async def _before_last(journal: Journal, stream: str | None, number: int) -> int:
    """The position before the last so many records, of the journal or of a stream."""
    end = await journal.position()
    if stream is None:
        return max(0, end - number)
    head = await journal.head(stream)
    page = [] if head is None else await journal.read_page(stream, after=max(0, head.version - number), limit=1)
    return page[0].position - 1 if page else end


async def _print_record(output: Output, journal: Journal, teller: _Teller, record: Record) -> None:
    event = event_of(journal, record)
    if output.as_json:
        output.json(record_json(record, event))
        return
    line = await teller.tell(record, event)
    style = STYLES[line.style]
    table = grid()
    table.add_column(no_wrap=True, min_width=6, justify="right")
    table.add_column(no_wrap=True)
    moment = when(record.recorded_at, digits=3)
    day, time, zone = moment[:10], moment[11:23], moment[23:]
    cells = [styled(str(record.position), "dim"), styled(time if output.for_people else moment, "dim")]
    if output.for_people and teller.day != day + zone:
        teller.day = day + zone
        output.result(styled(f"{day}, times in {'UTC' if zone == 'Z' else zone}", "dim"))
    if not output.for_people:
        # Programs such as grep want each line to stand for itself.
        table.add_column(no_wrap=True, min_width=26)
        cells.append(styled(_short(record.stream)))
    elif teller.last != record.stream:
        output.result(styled(clean(record.stream), "bold dim"))
    table.add_column(no_wrap=True, min_width=12)
    table.add_column(overflow="fold")
    cells += [styled(line.who, style), styled(line.text, style)]
    teller.last = record.stream
    table.add_row(*cells)
    output.result(table)


def _short(stream: str) -> str:
    """A stream's name in a narrow column: a run's id, or the kind of the stream and the beginning of its name."""
    kind, _, name = stream.partition("/")
    return clean(name if kind == "run" else stream[:24])
