"""``why``: the causal chain behind a call, an answer or a spend; ``diff``: two runs side by side."""

from __future__ import annotations

from pathlib import Path

import click
from rich.tree import Tree

from trouper.audit.diff import compare
from trouper.audit.diff_json import comparison_json
from trouper.audit.why import Explainer, sound
from trouper.audit.why_json import answer_json, call_json, spend_json
from trouper.cli.codes import Exit, UsageError
from trouper.cli.command import paged_command, run_async
from trouper.cli.damage import KEEP_GOING
from trouper.cli.journals import call_id, find_run, is_call, opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output
from trouper.cli.side_by_side import SideBySide
from trouper.cli.why_tree import Planter
from trouper_journal import Journal


@paged_command
@JOURNAL
@KEEP_GOING
@click.argument("what", metavar="RUN|RUN/1.0")
@click.option("--spend", is_flag=True, help="What the run has spent, and on what.")
@click.option("--full", is_flag=True, help="Shorten and leave out nothing.")
@click.option(
    "--depth", default=16, show_default=True, type=click.IntRange(min=0), help="How deep sub-agents are followed."
)
def why(output: Output, /, journal: Path, what: str, *, spend: bool, full: bool, depth: int) -> Exit:
    """Explain a call (RUN/1.0), or the answer of a run.

    Shows what happened and who allowed it, the reply that asked for it, the very messages that the model saw (their
    digest computed anew and held against the record), and what started the run. Exit code 1 if a digest differs, or
    a call was planned otherwise than its definition has it.
    """
    if "/" in what:
        call_id(None, None, what)
    if spend and is_call(what):
        raise UsageError(f"--spend explains what a run has spent, and {what} is a call")

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            return await _explain(output, opened_journal, what, spend=spend, full=full, depth=depth)

    return run_async(main)


async def _explain(output: Output, journal: Journal, what: str, *, spend: bool, full: bool, depth: int) -> Exit:
    explainer, planter = Explainer(journal, depth), Planter(full)
    run, _, name = what.rpartition("/") if is_call(what) else (what, "", "")
    found = await find_run(journal, run)
    if spend:
        spent = await explainer.spend(found)
        _print(output, spend_json(spent) if output.as_json else planter.spend(spent))
        return Exit.OK
    if name:
        call = await explainer.call(f"{found}/{name}")
        _print(output, call_json(call) if output.as_json else planter.call(call))
        return Exit.OK if sound(call) else Exit.BAD
    answer = await explainer.answer(found)
    _print(output, answer_json(answer) if output.as_json else planter.answer(answer))
    return Exit.OK if sound(answer) else Exit.BAD


def _print(output: Output, what: Tree | dict[str, object]) -> None:
    if isinstance(what, Tree):
        output.result(what)
    else:
        output.json(what)


@paged_command
@JOURNAL
@KEEP_GOING
@click.argument("left", metavar="RUN")
@click.argument("right", metavar="[OTHER]", required=False)
@click.option("--full", is_flag=True, help="Shorten nothing.")
def diff(output: Output, /, journal: Path, left: str, right: str | None, *, full: bool) -> Exit:
    """Put two runs side by side, or a fork and the run that it was forked from.

    Shows how many messages they have in common, the first that differs, and then messages, calls, results and spending
    that differ. Exit code 1 if anything does, as of diff(1).
    """

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            names = [await find_run(opened_journal, given) for given in (left, right) if given is not None]
            found = await compare(opened_journal, *names)
        if output.as_json:
            output.json(comparison_json(found))
        else:
            SideBySide(output, full).show(found)
        return Exit.OK if found.same else Exit.BAD

    return run_async(main)
