"""``replay``: the decisions of a journal against the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

import click
from attrs import define
from rich.text import Text

from trouper.audit.refold import RUN
from trouper.audit.replay_report import ReplayProblem, StreamReplay
from trouper.audit.replaying import replay_opened
from trouper.cli.archives import tell_left_out
from trouper.cli.checking import JOBS, progress
from trouper.cli.codes import Exit
from trouper.cli.command import command, run_async
from trouper.cli.damage import KEEP_GOING
from trouper.cli.journals import find_run, opened_to_read
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.narration.text import CUT, clean, count, value_text
from trouper_journal.archive import ArchiveStore

_CALLS: Final = 4


@define
class _Total:
    runs: int = 0
    events: int = 0
    erased: int = 0
    other_rules: int = 0
    history: int = 0
    differences: int = 0


@command
@JOURNAL
@KEEP_GOING
@click.argument("run_id", metavar="[RUN]", required=False)
@JOBS
@click.option("--full", is_flag=True, help="Shorten nothing.")
def replay(output: Output, /, journal: Path, *, run_id: str | None, jobs: int | None, full: bool) -> Exit:
    """Check that the rules would take the recorded steps, of one run or of all.

    Folds the run again, or the whole journal where none is named, and looks whether what it started from is what it
    was. Needs neither the agents' code nor any provider. Exit code 1 if anything differs.
    """
    limit, total = None if full else CUT, _Total()

    async def main() -> Exit:
        async with opened_to_read(journal) as opened_journal:
            run = None if run_id is None else await find_run(opened_journal, run_id)
            with progress(output, "replaying") as told:
                async with aclosing(replay_opened(opened_journal, run, jobs=jobs, progress=told)) as results:
                    async for each in results:
                        _tell(output, each, total, limit)
                        if output.gone:
                            break
            left_out = run is None and await tell_left_out(output, opened_journal)
            if not output.as_json:
                _sum_up(output, total, left_out=left_out)
            if isinstance(opened_journal.store, ArchiveStore):
                text = "definitions and standing rules stay in the journal: no call here was held against them"
                output.note(styled(text, "yellow"))
        return Exit.BAD if total.differences else Exit.OK

    return run_async(main)


def _tell(output: Output, each: StreamReplay, total: _Total, limit: int | None) -> None:
    if each.run is not None and not each.left_out:
        total.runs += 1
        total.events += each.records
        total.erased += each.not_compared == "erased"
        total.history += each.not_compared == "archived"
        total.other_rules += (each.not_compared or "").startswith("rules")
    total.differences += not each.ok
    if output.as_json:
        if each.run is not None or not each.ok:
            output.json(_replay_json(each))
    elif each.problem is not None:
        for line in _problem_lines(each.problem, limit):
            output.result(line)


def _replay_json(each: StreamReplay) -> dict[str, object]:
    problem = each.problem
    return {
        "stream": each.stream,
        "run": None if each.run is None else each.stream.removeprefix(RUN),
        "records": each.records,
        "ok": each.ok,
        "not_compared": each.not_compared,
        "kind": None if problem is None else problem.kind,
        "version": None if problem is None else problem.version,
        "position": None if problem is None else problem.position,
        "problem": None if problem is None else problem.message,
        "recorded": None if problem is None else problem.recorded,
        "named": None if problem is None else problem.named,
        "state": None if problem is None else problem.state,
    }


def _problem_lines(problem: ReplayProblem, limit: int | None) -> list[Text]:
    """The problem, and under it both sides of a difference."""
    kind, _, name = problem.stream.partition("/")
    lines = [styled(f"{kind} {clean(name)}: {clean(problem.message)}", "red")]
    sides: list[tuple[str, str]] = []
    if problem.position is not None and problem.kind == "step":
        sides.append(("position", f"{problem.position:,}"))
    if problem.recorded is not None:
        recorded = f"{problem.recorded['type']} {value_text(problem.recorded['fields'], limit)}"
        sides.append(("recorded", recorded))
    if problem.named is not None:
        named = [f"{step['step']} {value_text(step['fields'], limit)}" for step in problem.named]
        sides.append(("the rules", "; ".join(named) or "wait: nothing is to be done"))
    if problem.state is not None:
        sides.append(("the run", _state_text(problem.state, limit)))
    return [*lines, *(Text.assemble("  ", (f"{what:<10}", "bold"), told) for what, told in sides)]


def _sum_up(output: Output, total: _Total, *, left_out: bool) -> None:
    if not total.runs and not total.differences:
        output.nothing("no run is left here: those that there were are archived" if left_out else "no runs yet")
        return
    if total.erased:
        output.result(
            styled(
                f"{count(total.erased, 'run')} folded and not compared to the end: content was erased, or is sealed",
                "yellow",
            )
        )
    if total.other_rules:
        output.result(styled(f"{count(total.other_rules, 'run')} not compared: written under other rules", "yellow"))
    if total.history:
        output.result(styled(f"the history of {count(total.history, 'run')} not compared: archived", "yellow"))
    differ = "1 differs" if total.differences == 1 else f"{total.differences} differ"
    checked = f"{count(total.runs, 'run')} with {count(total.events, 'event')} replayed"
    left = total.erased + total.other_rules
    if total.differences:
        output.result(styled(f"{checked}: {differ}", "red"))
    elif left < total.runs:
        rest = f"; of {count(left, 'run')} not all could be compared" if left else ""
        output.result(styled(f"{checked}: the rules take the recorded steps{rest}", "green"))
    else:
        output.result(
            styled(f"{checked}: nothing contradicts the rules, and none could be compared to its end", "yellow")
        )


def _state_text(state: Mapping[str, object], limit: int | None) -> str:
    """What of a run bears on its next step, in one line; everything is in ``--json``."""
    parts = [f"{state['phase']}, {count(int(str(state['steps'])), 'step')} taken"]
    for name, value in state.items():
        match name, value:
            case "phase" | "steps" | "index" | "rules" | "finish", _:
                continue
            case "model", {"index": index, "attempt": attempt, "phase": phase}:
                parts.append(f"model call {index} {phase} (attempt {attempt})")
            case "unplanned" | "calls", list():
                parts += _call_texts(value, limit)
            case _, True:
                parts.append(name)
            case _:
                parts.append(f"{name} {value_text(value, limit)}")
    return "; ".join(parts)


def _call_texts(calls: Sequence[Mapping[str, object]], limit: int | None) -> list[str]:
    shown = calls if limit is None else calls[:_CALLS]
    texts: list[str] = []
    for call in shown:
        name = f"call {call['action']} {clean(str(call['tool']))}"
        if "phase" in call:
            attempts = f"attempt {call['attempt']} of {call['attempts']}"
            texts.append(f"{name} {call['phase']} (gate {call['gate']}, {attempts})")
        else:
            texts.append(f"{name} not looked at yet")
    more = len(calls) - len(shown)
    return [*texts, count(more, "more call")] if more else texts
