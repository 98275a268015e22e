"""The command ``doctor``: is a journal well, and what is to be done?"""

from __future__ import annotations

from pathlib import Path

import attrs
import click
from rich.text import Text

from trouper.audit.doctor import CHECKS, Examination, examine
from trouper.audit.run_checkup import Patience
from trouper.cli.archives import tell_left_out
from trouper.cli.checking import progress
from trouper.cli.codes import Exit
from trouper.cli.command import paged_command, run_async
from trouper.cli.journals import driven, opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.narration.text import clean, count
from trouper_journal import SystemClock

_STYLES = {"bad": "bold red", "warn": "yellow", "note": "dim"}


@paged_command
@JOURNAL
@click.option(
    "--quiet",
    default=900.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds without a record after which a run that has something to do is stuck.",
)
@click.option(
    "--waiting", default=86_400.0, show_default=True, type=click.FloatRange(min=0),
    help="Seconds for which a run may wait for a person.",
)  # fmt: skip
def doctor(output: Output, /, journal: Path, *, quiet: float, waiting: float) -> Exit:
    """Examine a journal, and say what to do about what is found. Exit code 1 if anything is bad.

    Looks at the file, at every record (also for what looks like a secret) and at every run. Changes nothing.
    """

    async def main() -> Exit:
        async with opened_to_read(journal, whole=True) as opened_journal:
            with progress(output, "examining") as told:
                found = await examine(
                    opened_journal,
                    now=SystemClock().now(),
                    driven=driven(journal),
                    patience=Patience(quiet=quiet, waiting=waiting),
                    progress=lambda _, done, total: told(done, total),
                )
            await tell_left_out(output, opened_journal)
        if output.as_json:
            output.json(_json(found))
        else:
            _print(output, found)
        return Exit.OK if found.ok else Exit.BAD

    return run_async(main)


def _json(found: Examination) -> dict[str, object]:
    return {
        "ok": found.ok,
        "journal_id": found.journal_id,
        "records": found.records,
        "runs": found.runs,
        "sealed": found.sealed,
        "checks": list(CHECKS),
        "findings": [attrs.asdict(finding) for finding in found.findings],
        "unlisted": [
            {"check": check, "severity": severity, "number": number} for check, severity, number in found.unlisted
        ],
    }


def _print(output: Output, found: Examination) -> None:
    for finding in found.findings:
        place = "" if finding.position is None else f" (position {finding.position:,})"
        output.result(
            Text.assemble(
                (f"{finding.severity:<4}  ", _STYLES[finding.severity]),
                (f"{finding.check}: ", "bold"),
                f"{clean(finding.message)}{place}",
            ),
            styled(f"      {clean(finding.advice)}", "dim"),
        )
    for check, severity, number in found.unlisted:
        output.result(styled(f"{severity:<4}  {check}: {number:,} more", _STYLES[severity]))
    numbers = {name: sum(each.severity == name for each in found.findings) for name in _STYLES}
    examined = f"{count(found.records, 'record')}, {count(found.runs, 'run')}, {len(CHECKS)} checks"
    for _, severity, number in found.unlisted:
        numbers[severity] += number
    told = ", ".join(_number_text(number, name) for name, number in numbers.items() if number) or "nothing found"
    output.result(styled(f"{examined}: {told}", "green" if found.ok else "bold red"))


def _number_text(number: int, severity: str) -> str:
    return f"{number:,} {severity}" if severity == "bad" else count(number, {"warn": "warning"}.get(severity, severity))
