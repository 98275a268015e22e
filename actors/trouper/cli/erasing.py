"""Commands for what must be forgotten: ``erase``, and ``keys`` for the file that makes it possible."""

from __future__ import annotations

from pathlib import Path

import click

from trouper.cli.changing import AS
from trouper.cli.codes import Exit, NotFoundError, UsageError
from trouper.cli.command import MASTER_KEY, command, run_async
from trouper.cli.journals import check_master_key, find_listed_run, opened, person
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.narration.plain import fields
from trouper.narration.text import clean, count
from trouper.runtime.erasing import Erasure, erase_run, erase_session


@command
@JOURNAL
@click.option("--session", metavar="SESSION", help="Erase this session, with all of its runs.")
@click.option("--run", "run_id", metavar="RUN", help="Erase this run, with all runs below it; its whole id.")
@AS
@click.option("--reason", required=True, help="Why; it is recorded, in plain for ever: name nobody.")
def erase(
    output: Output, /, journal: Path, *, session: str | None, run_id: str | None, name: str | None, reason: str
) -> Exit:
    """Make what a session or a run holds unreadable for ever, here and in every copy of the journal.

    The journal must have been written with keys, and what is erased must be over. What is in archives is erased with
    the rest; give them, and it is counted, too. Exit code 1 if some of it was stored in plain, and can still be read.
    """
    if (session is None) == (run_id is None):
        raise UsageError("say what to erase: either --session SESSION or --run RUN")

    async def main() -> Exit:
        by = person(name)
        async with opened(journal, with_archived=True) as opened_journal:
            if session is not None:
                done = await erase_session(opened_journal, session, by=by, reason=reason)
            else:
                found = await find_listed_run(opened_journal, run_id or "")
                if found != run_id:
                    raise UsageError(
                        f"nothing is erased by the beginning of an id: say --run {found}, if that is meant"
                    )
                done = await erase_run(opened_journal, found, by=by, reason=reason)
        if output.as_json:
            output.json(fields(done))
        else:
            _print_erasure(output, done)
        return Exit.BAD if done.plain else Exit.OK

    return run_async(main)


def _print_erasure(output: Output, done: Erasure) -> None:
    subject = clean(done.domain.replace("/", " ", 1))
    what = f"{count(done.records, 'record')} of {count(len(done.runs), 'run')}"
    if done.keys:
        output.result(styled(f"{subject} is erased: nobody can read the content of {what} any more", "green"))
        output.result(styled(f"destroyed: {', '.join(f'key {clean(key)}' for key in done.keys)}", "dim"))
    else:
        output.result(styled(f"{subject} was erased before: {what}"))
    if done.archived:
        output.result(styled(f"so is what is sealed of {count(done.archived, 'record')} in archives"))
        if not done.runs:
            output.note(styled("which runs it had stands in its archive (--archive FILE)", "yellow"))
    if done.plain:
        output.result(styled(f"{count(done.plain, 'record')} were stored in plain, and can still be read", "red"))
    if done.copies:
        runs = ", ".join(map(clean, done.copies))
        output.note(styled(f"runs that started from it may hold parts of it, and are content of their own: {runs}"))
    if done.unread:
        unread = f"{count(done.unread, 'run')} in archives could not be looked at, and may hold parts of it"
        output.note(styled(f"{unread} (--archive FILE)", "yellow"))


@command
@click.argument("action", type=click.Choice(["rotate"]))
@click.argument("file", type=click.Path(path_type=Path))
@MASTER_KEY
def keys(output: Output, /, action: str, file: Path, *, master_key: Path | None) -> Exit:
    """Wrap all keys in FILE with a new master key: older copies of FILE are of no use without the old one.

    The new master key takes the place of the old one in its file. Journals stay as they are. Interrupted, it can be
    run again.
    """
    assert action == "rotate"

    if not file.exists():
        raise NotFoundError(f"there is no file of keys {file}")
    check_master_key(master_key)

    async def main() -> Exit:
        from trouper_journal.sealing import FileKeyStore

        store = FileKeyStore(file, master_key)
        number = await store.rotate()
        if output.as_json:
            output.json({"file": str(file), "master_key_file": store.master_path, "rewrapped": number})
        else:
            output.result(styled(f"{count(number, 'key')} wrapped with a new master key, {store.master_path}", "green"))
            if master_key is not None:
                kept = "the old one is kept beside it, with its id behind the name"
                output.note(styled(f"{kept}: delete it once no file of keys needs it", "dim"))
        return Exit.OK

    return run_async(main)
