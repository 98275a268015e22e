"""The command ``backup``: a copy of a journal, also of one that is in use."""

from __future__ import annotations

from pathlib import Path

import click

from trouper.cli.archives import given_archives
from trouper.cli.checking import progress
from trouper.cli.codes import ConflictError, Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import check_whole
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.narration.text import count
from trouper_journal.backup import back_up


@command
@JOURNAL
@click.option(
    "--out", "target", required=True, type=click.Path(path_type=Path, dir_okay=False), help="A file that is not there."
)
def backup(output: Output, /, journal: Path, *, target: Path) -> Exit:
    """Copy a journal as it stands now, also while a daemon writes to it, and verify the copy.

    The copy gets its name when it is whole and verified; nothing is overwritten.
    """

    async def main() -> Exit:
        if given_archives():
            raise UsageError("--archive: a backup copies the journal alone; an archive does not change, copy its file")
        check_whole(journal)
        with progress(output, "copying, then verifying") as told:
            try:
                made = await back_up(journal, target, progress=lambda _, done, total: told(done, total))
            except FileExistsError as error:
                raise ConflictError(str(error)) from None
        if output.as_json:
            output.json(
                {
                    "file": made.path,
                    "journal_id": made.journal_id,
                    "records": made.records,
                    "root": made.root,
                    "bytes": made.size,
                }
            )
        else:
            output.result(styled(f"{count(made.records, 'record')} copied and verified: {made.path}", "green"))
            output.result(styled(f"journal {made.journal_id}, root {made.root}", "dim"))
        return Exit.OK

    return run_async(main)
