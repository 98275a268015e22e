"""``spend``: what all runs of a journal have spent, by agent, model and day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from rich.table import Table

from trouper.audit.refold import files_of, open_beside
from trouper.cli.archives import tell_left_out
from trouper.cli.checking import progress
from trouper.cli.codes import Exit
from trouper.cli.command import paged_command, run_async
from trouper.cli.damage import KEEP_GOING, past_damage
from trouper.cli.journals import opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, grid, styled
from trouper.narration.plain import fields
from trouper.narration.spending import money
from trouper.narration.text import count, name_text
from trouper.projections import Spending, SpendProjection, open_projection, spending
from trouper.projections.spend import By

_WAYS: Final[Sequence[By]] = ("agent", "model", "day")


def _day(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str:
    try:
        return "" if given is None else dt.date.fromisoformat(given).isoformat()
    except ValueError:
        raise click.BadParameter(f"{given!r} is not a day, such as 2026-11-30") from None


@paged_command
@JOURNAL
@KEEP_GOING
@click.option(
    "--by",
    "ways",
    multiple=True,
    type=click.Choice(_WAYS),
    help="What is told apart; may be repeated. [default: agent]",
)
@click.option("--since", metavar="DAY", callback=_day, help="From this day on (UTC), such as 2026-11-01.")
@click.option("--until", metavar="DAY", callback=_day, help="Up to this day, which counts.")
def spend(output: Output, /, journal: Path, *, ways: Sequence[By], since: str, until: str) -> Exit:
    """Sum up what all runs have spent: calls, tokens and cost.

    Reads the whole journal, and writes nothing. What a sub-agent's run has spent counts for the sub-agent.
    """
    by = tuple(dict.fromkeys(ways)) or ("agent",)

    async def main() -> Exit:
        async with (
            opened_to_read(journal) as looked_at,
            open_beside(files_of(looked_at)) as opened_journal,
            open_projection(past_damage(opened_journal), SpendProjection(), in_memory=True) as projected,
        ):
            with progress(output, "adding up") as told:
                await projected.catch_up(told)
            rows = await spending(projected, by, since=since, until=until)
            whole = await spending(projected, (), since=since, until=until)
            left_out = await tell_left_out(output, looked_at)
        if output.as_json:
            for row in rows:
                output.json(_row_json(row, by))
        elif not rows:
            ever = "" if left_out else " yet"
            days = " in these days" if since or until else ever
            output.nothing(f"nothing was spent{' by runs that could be read' if left_out else ''}{days}")
        else:
            _print_rows(output, rows, by, whole[0])
        return Exit.OK

    return run_async(main)


def _row_json(row: Spending, by: Sequence[By]) -> dict[str, object]:
    left_out = {name for name in _WAYS if name not in by}
    return {name: value for name, value in fields(row).items() if name not in left_out}


def _print_rows(output: Output, rows: Sequence[Spending], by: Sequence[By], whole: Spending) -> None:
    table: Table = grid()
    shown = [*by, "runs", "model calls", "tool calls", "tokens in", "out", "cost", ""]
    for name in shown:
        table.add_column(justify="left" if name in {*by, ""} else "right")
    table.add_row(*(styled(name, "dim") for name in shown))
    for row in rows:
        table.add_row(*(name_text(getattr(row, name)) for name in by), *_numbers(row))
    if len(rows) > 1:
        table.add_row(styled("all", "bold"), *[""] * (len(by) - 1), *_numbers(whole))
    output.result(table)


def _numbers(row: Spending) -> list[str]:
    numbers = (row.runs, row.model_calls, row.tool_calls, row.input_tokens, row.output_tokens)
    unsure: list[str] = []
    if row.assumed_tokens:
        unsure.append(f"and about {row.assumed_tokens:,} tokens by estimate")
    if row.unknown:
        unsure.append(f"unknown for {count(row.unknown, 'request')}")
    if row.unpriced and row.cost:
        unsure.append(f"{row.unpriced:,} without a price")
    return [*(f"{number:,}" for number in numbers), money(row.cost) if row.cost else "-", ", ".join(unsure)]
