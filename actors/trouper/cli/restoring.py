"""The command ``restore``: whether an old copy stands in a journal's place, and that somebody accepts it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import click

from trouper.audit.copies import Standing, standing
from trouper.audit.parked import ParkedRun, parked_runs
from trouper.cli.changing import AS
from trouper.cli.codes import ConflictError, Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import driven, opened, opened_to_read, person
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.core.events import Principal
from trouper.narration.text import clean, count
from trouper.runtime.restoring import accept
from trouper_journal import Journal

_SHOWN: Final = 20
_CALLS: Final = {
    "under_way": "was under way, and counts as unknown once that is accepted",
    "ahead": "was still to be made, and may have been made since",
}
_GO_ON: Final = (
    "they go on where they stood then: what they did since is not known here, and may be done again; "
    "`trouper pause` or `trouper cancel` what must not"
)


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
        opening = opened(journal) if accept else opened_to_read(journal, whole=True)
        async with opening as opened_journal:
            return await _restore(output, journal, opened_journal, (by, reason or "") if accept else None)

    return run_async(main)


async def _restore(output: Output, path: Path, journal: Journal, accepting: tuple[Principal, str] | None) -> Exit:
    stands = await standing(journal)
    if accepting is not None and stands.found.state != "rolled_back":
        raise ConflictError(f"nothing to accept: {stands.text}; nothing was changed")
    runs = [run async for run in parked_runs(journal)] if stands.found.state == "rolled_back" else []
    if accepting is not None:
        by, reason = accepting
        if await accept(journal, stands.found, by=by, reason=reason):
            stands = Standing(stands.found, await journal.position())
    if output.as_json:
        now = stands.found.now
        told = {"records": now.size, "root": now.root, "runs": [_run_json(run) for run in runs]}
        output.json({**stands.to_json(), **told, "driven": driven(path)})
    else:
        _print(output, path, stands, runs)
    return Exit.BAD if stands.bad else Exit.OK


def _run_json(run: ParkedRun) -> dict[str, object]:
    calls = None if run.calls is None else [attrs.asdict(call) for call in run.calls]
    return {"run": run.run, "label": run.label, "calls": calls}


def _print(output: Output, path: Path, stands: Standing, runs: Sequence[ParkedRun]) -> None:
    state = stands.found.state
    if state != "rolled_back":
        output.result(styled(stands.text, "green" if state == "matches" else "yellow"))
        return
    output.result(styled(stands.text, "red"))
    for run in runs[:_SHOWN]:
        _print_run(output, run)
    if len(runs) > _SHOWN:
        output.result(styled(f"and {count(len(runs) - _SHOWN, 'more run')}", "dim"))
    if runs:
        output.note(styled(_GO_ON, "yellow"))
    if stands.bad:
        output.note(styled(f"its runs are parked until `trouper restore {clean(str(path))} --accept`", "yellow"))
        return
    output.result(styled("that is accepted: writes that were under way in it count as unknown", "green"))
    if driven(path) is False:
        output.note(styled("no process drives this journal: its runs go on when a runtime opens it", "yellow"))


def _print_run(output: Output, run: ParkedRun) -> None:
    output.result(styled(f"run {clean(run.run)} is not over in it ({clean(run.label)})"))
    if run.calls is None:
        output.result(styled("      cannot be read here: `trouper doctor` tells more", "yellow"))
    for call in run.calls or ():
        output.result(styled(f"      {clean(call.action)} {clean(call.tool)} ({call.effect}): {_CALLS[call.state]}"))
