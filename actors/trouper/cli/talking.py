"""Commands on sessions: ``sessions`` looks, ``send`` says something in one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
from attrs import frozen

from trouper._clock import SystemClock
from trouper.cli.archives import tell_left_out
from trouper.cli.changing import AS, say_when
from trouper.cli.codes import Exit, NotFoundError
from trouper.cli.command import command, paged_command, run_async
from trouper.cli.damage import KEEP_GOING
from trouper.cli.journals import driven, event_of, opened, opened_to_read, person, record_at
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, grid, styled
from trouper.cli.timeline import label_text
from trouper.core.events import DefinitionRecorded, Standing
from trouper.errors import UnknownSession
from trouper.narration.narrate import agent_named_in
from trouper.narration.plain import SECOND, moment
from trouper.narration.text import age, clean, count
from trouper.runtime import Commands, SessionView, Task
from trouper.runtime.sessions import read
from trouper_journal import Archived, Damaged, Erased, Journal, StreamHead


@frozen
class _Row:
    session: str
    standing: Standing
    at: int


@paged_command
@JOURNAL
@KEEP_GOING
@click.argument("session", required=False)
def sessions(output: Output, /, journal: Path, session: str | None) -> Exit:
    """List the sessions of a journal, or the turns of one SESSION."""

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            if session is None:
                await _list(output, opened_journal)
            else:
                await _list_turns(output, opened_journal, await read(opened_journal, session))
        return Exit.OK

    return run_async(main)


async def _list(output: Output, journal: Journal) -> None:
    found = [await _row(journal, head) async for head in journal.streams(prefix="session/")]
    rows = [row for row in found if isinstance(row, _Row)]
    for why, number in Counter(row for row in found if isinstance(row, str)).items():
        output.note(styled(f"{count(number, 'session')} not shown: {why}", "yellow"))
    await tell_left_out(output, journal)
    if output.as_json:
        for row in rows:
            output.json(
                {
                    "session": row.session,
                    "agent": row.standing.agent,
                    "turns": row.standing.turns,
                    "active": row.standing.active or None,
                    "last_event_at": moment(row.at),
                }
            )
        return
    if not found:
        output.nothing("no sessions yet")
        return
    if not rows:
        return
    now = SystemClock().now()
    table = grid()
    for name in ("session", "agent", "turns", "under way", "last event"):
        table.add_column(name, overflow="fold")
    table.show_header = True
    table.header_style = "dim"
    for row in rows:
        standing = row.standing
        since = f"{age((now - row.at) / SECOND)} ago"
        table.add_row(clean(row.session), clean(standing.agent), f"{standing.turns:,}", clean(standing.active), since)
    output.result(table)


async def _row(journal: Journal, head: StreamHead) -> _Row | str:
    """A session by its last event; why it is not told where that cannot be read here."""
    record = await record_at(journal, head, head.version)
    if isinstance(record, Archived | Damaged):
        return "archived" if isinstance(record, Archived) else "damaged"
    standing = getattr(event_of(journal, record), "standing", None)
    if not isinstance(standing, Standing):
        return "written by a newer release"
    return _Row(head.stream.removeprefix("session/"), standing, record.recorded_at)


async def _list_turns(output: Output, journal: Journal, view: SessionView) -> None:
    labels: dict[str, str] = {}
    for turn in view.turns:
        head = await journal.head(f"run/{turn.run}")
        labels[turn.run] = (head.label if head is not None else None) or "?"
    if output.as_json:
        for turn in view.turns:
            output.json(
                {
                    "session": view.id,
                    "agent": view.agent,
                    "turn": turn.number,
                    "run": turn.run,
                    "status": turn.status,
                    "label": labels[turn.run],
                }
            )
        return
    table = grid()
    for name in ("turn", "run", "status"):
        table.add_column(name, no_wrap=True)
    table.show_header = True
    table.header_style = "dim"
    for turn in view.turns:
        status = label_text(turn.status if turn.status == "withdrawn" else labels[turn.run])
        table.add_row(f"{turn.number:,}", clean(turn.run), status)
    output.result(styled(f"session {clean(view.id)} with {clean(view.agent)}: {count(len(view.turns), 'turn')}"), table)


@command
@JOURNAL
@click.argument("session")
@click.argument("text")
@AS
@click.option("--agent", metavar="NAME", default="", help="Whom the session is with; needed to open one.")
@click.option("--command-id", metavar="ID", help="Names the message: given again, it is the same turn.")
@click.option("--supersede", is_flag=True, help="Deny what waits for a person in the turn under way.")
def send(
    output: Output,
    /,
    journal: Path,
    session: str,
    text: str,
    *,
    name: str | None,
    agent: str,
    command_id: str | None,
    supersede: bool,
) -> Exit:
    """Send a message to a session. It is answered when the turns before it have ended."""

    async def main() -> Exit:
        async with opened(journal) as opened_journal:
            commands = Commands(opened_journal)
            task = Task(agent, text, by=person(name))
            try:
                sent = await commands.send(session, task, command_id, supersede=supersede)
            except UnknownSession:
                raise NotFoundError(f"there is no session {session} in this journal; --agent NAME opens one") from None
            state = await commands.state(sent.run)
            place = state.turn.place if state.turn is not None else None
            number = place.number if place is not None else 0
            given = state.turn is not None and state.turn.given
            if output.as_json:
                told = {"session": session, "turn": number, "run": sent.run, "repeated": sent.repeated, "given": given}
                output.json({**told, "driven": driven(journal)})
                return Exit.OK
            how = "was sent before" if sent.repeated else "has its turn" if given else "waits for its turn"
            output.result(styled(f"turn {number} of session {clean(session)} {how}: run {clean(sent.run)}"))
            if number == 1 and not sent.repeated:
                await _say_if_new(output, opened_journal, agent)
            say_when(output, journal, state)
        return Exit.OK

    return run_async(main)


async def _say_if_new(output: Output, journal: Journal, agent: str) -> None:
    """A journal knows no agents but those that have run in it: the name may be mistyped, or may be yet to come."""
    names: set[str] = set()
    async for head in journal.streams(prefix="definition/"):
        definition = event_of(journal, await record_at(journal, head, 1))
        if not isinstance(definition, DefinitionRecorded) or isinstance(definition.document, Erased):
            return
        names.add(agent_named_in(definition.document))
    if agent in names:
        return
    had = f"those that have: {clean(', '.join(sorted(names)))}" if names else "nor has any other"
    output.note(styled(f"no agent {clean(agent)} has run in this journal yet, {had}; the turn waits for one", "yellow"))
