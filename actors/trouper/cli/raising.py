"""The command ``raise-limit``: a person allows a run more."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, Unpack

import click

from trouper.cli.changing import AS, REASON, change_run
from trouper.cli.codes import ConflictError, Exit, UsageError
from trouper.cli.command import command
from trouper.cli.journals import person
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output
from trouper.core.budget import Raise
from trouper.core.state import RunState
from trouper.errors import TrouperError
from trouper.narration.spending import more_text
from trouper.narration.text import count, who
from trouper.runtime import Commands


class Amounts(TypedDict):
    """Options of ``trouper raise-limit``."""

    steps: int
    model_calls: int
    tool_calls: int
    calls: tuple[str, ...]
    tokens: int
    cost: int
    seconds: float


@command
@JOURNAL
@click.argument("run_id", metavar="RUN")
@click.option("--steps", type=int, default=0, metavar="N", help="How many more super-steps.")
@click.option("--model-calls", type=int, default=0, metavar="N", help="How many more model calls.")
@click.option("--tool-calls", type=int, default=0, metavar="N", help="How many more calls of tools, all together.")
@click.option("--calls", multiple=True, metavar="TOOL=N", help="How many more calls of one tool; may be repeated.")
@click.option("--tokens", type=int, default=0, metavar="N", help="How many more tokens.")
@click.option("--cost", type=int, default=0, metavar="N", help="How many more nano-units of cost.")
@click.option("--seconds", type=float, default=0.0, metavar="S", help="How many more seconds.")
@AS
@REASON
def raise_limit(
    output: Output, /, journal: Path, run_id: str, *, name: str | None, reason: str | None, **amounts: Unpack[Amounts]
) -> Exit:
    """Allow a run more; one that stopped at that limit goes on."""
    more = Raise(
        amounts["steps"],
        amounts["model_calls"],
        amounts["tool_calls"],
        dict(_calls(given) for given in amounts["calls"]),
        amounts["tokens"],
        amounts["cost"],
        amounts["seconds"],
    )
    if more == Raise():
        raise UsageError(
            "say what there shall be more of: --steps, --model-calls, --tool-calls, --calls, --tokens, --cost or "
            "--seconds"
        )

    async def change(commands: Commands, found: str) -> RunState:
        try:
            return await commands.raise_limit(found, more, by=person(name), reason=reason)
        except TrouperError as error:
            if type(error) is TrouperError:
                raise ConflictError(str(error)) from error
            raise

    def tell(state: RunState) -> str:
        steps = f"; it has taken {state.steps} of {count(state.limits.max_steps, 'step')}" if state.limits else ""
        return f"allowed {more_text(more)} by {who(person(name))}{steps if more.steps else ''}"

    return change_run(output, journal, run_id, change, tell)


def _calls(given: str) -> tuple[str, int]:
    tool, _, number = given.rpartition("=")
    if not tool or not number.isdecimal():
        raise UsageError(f"--calls {given}: write TOOL=N, such as search=5")
    return tool, int(number)
