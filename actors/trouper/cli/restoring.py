"""The command ``restore``: whether an old copy stands in a journal's place, and that somebody accepts it."""

from __future__ import annotations

from pathlib import Path

import click

from trouper.cli.changing import AS
from trouper.cli.codes import ConflictError, Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import driven, opened, opened_to_read, person
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.core.events import Principal
from trouper.narration.text import clean, count
from trouper_journal import Journal

_SAID = {
    "matches": ("the journal is as it was left", "green"),
    "missing": (
        "there is no file beside the journal that says how it was left: an old copy would not be noticed",
        "yellow",
    ),
    "damaged": ("the file beside the journal cannot be read: an old copy would not be noticed", "yellow"),
    "foreign": ("the file beside the journal is of another journal: an old copy would not be noticed", "yellow"),
}


@command
@JOURNAL
@click.option("--accept", is_flag=True, help="Go on with the older copy.")
@AS
@click.option("--reason", help="Why; it is recorded.")
def restore(output: Output, /, journal: Path, *, accept: bool, name: str | None, reason: str | None) -> Exit:
    """Say whether an old copy stands in the journal's place, and with --accept let its runs go on.

    Until that is accepted none of its runs is driven. Afterwards every write that was started in the copy and has no
    receipt there counts as unknown, and a person settles it. Exit code 1 if it is an old copy that nobody accepted.
    """
    if accept and not (reason or "").strip():
        raise UsageError("--accept needs a --reason")
    by = person(name)

    async def main() -> Exit:
        opening = opened(journal) if accept else opened_to_read(journal)
        async with opening as opened_journal:
            return await _restore(output, journal, opened_journal, (by, reason or "") if accept else None)

    return run_async(main)


async def _restore(output: Output, path: Path, journal: Journal, accepting: tuple[Principal, str] | None) -> Exit:
    from trouper.runtime.restoring import accept, restored
    from trouper_journal.rollback import compare_head

    found = await compare_head(journal)
    lost = found.before if found.state == "rolled_back" else None
    accepted = lost is not None and await restored(journal, lost) is not None
    if accepting is not None:
        by, reason = accepting
        if lost is None:
            raise ConflictError(f"nothing to accept: {_SAID[found.state][0]}; nothing was changed")
        await accept(journal, found, by=by, reason=reason)
        accepted = True
    if output.as_json:
        output.json(
            {
                "state": found.state,
                "accepted": accepted,
                "records": found.now.size,
                "root": found.now.root,
                "known_records": None if found.before is None else found.before.size,
                "known_root": None if found.before is None else found.before.root,
                "driven": driven(path),
            }
        )
    elif lost is None:
        text, colour = _SAID[found.state]
        output.result(styled(text, colour))
    else:
        had = (
            f"it had {count(lost.size, 'record')} when it was last left (root {lost.root}), and has {found.now.size:,}"
        )
        output.result(styled(f"an older copy stands in the journal's place, or its records were changed: {had}", "red"))
        if accepted:
            output.result(styled("that is accepted: writes that were under way in it count as unknown", "green"))
            if driven(path) is False:
                output.note(styled("no process drives this journal: its runs go on when a runtime opens it", "yellow"))
        else:
            output.note(styled(f"its runs are parked until `trouper restore {clean(str(path))} --accept`", "yellow"))
    return Exit.BAD if lost is not None and not accepted else Exit.OK
