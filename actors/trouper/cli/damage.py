"""Reading on behind what is damaged: ``--keep-going``, one line on standard error for each place, and exit code 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from trouper.cli.codes import Exit
from trouper.cli.output import Output
from trouper_journal import Damaged, Journal, JournalCorrupt, Problem, Verification

_KEY: Final = "trouper.damage"
_SHOWN: Final = 20
_KEPT: Final = 10_000


class Damage:
    """What was found to be damaged while a command read on.

    Args:
        output: Where it is told.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._found: set[tuple[int, str]] = set()
        self.wanted = False

    @property
    def found(self) -> bool:
        """Whether anything was."""
        return bool(self._found)

    def note(self, position: int | None, problem: str) -> None:
        """Tell of a place, once."""
        place = (position or 0, problem)
        if place in self._found or len(self._found) == _KEPT:
            return
        self._found.add(place)
        if len(self._found) <= _SHOWN:
            where = f"position {position}: " if position and position > 0 else ""
            self._output.error(f"{where}{problem}")

    def sum_up(self) -> None:
        """Say how many more there were than were told of."""
        more = len(self._found) - _SHOWN
        if more > 0:
            least = " or more" if len(self._found) == _KEPT else ""
            self._output.error(f"{more:,}{least} more places are damaged: `trouper verify` tells more")


def take_note(context: click.Context, output: Output) -> Damage:
    """Have damage noted for the command that begins."""
    damage = Damage(output)
    damage.wanted = bool(context.meta.get(_KEY))
    context.meta[_KEY] = damage
    return damage


def keeps_going() -> bool:
    """Whether the command line says to read on behind what is damaged."""
    damage = _damage()
    return damage is not None and damage.wanted


def noted(marker: Damaged) -> None:
    """Note a damaged place that the command reads on behind."""
    note_problem(marker.first, marker.told)


def note_problem(position: int | None, problem: str) -> None:
    """Note what is wrong with what the command goes on without."""
    damage = _damage()
    if damage is not None:
        damage.note(position, problem)


def note_problems(found: Verification) -> None:
    """Note what a verification found of a journal, if the command line says to go on with it.

    Raises:
        JournalCorrupt: It does not.
    """
    problems = sorted(found.problems, key=_place)
    damage = _damage()
    if problems and (damage is None or not damage.wanted):
        raise JournalCorrupt(problems[0].message, problems[0].position)
    for problem in problems:
        assert damage is not None
        damage.note(problem.position, problem.message)


def _place(problem: Problem) -> tuple[bool, bool, int]:
    """Records first, in order; then what indexes say, which follows from them, or is worth less."""
    return problem.kind in {"stream", "key"}, problem.position is None, problem.position or 0


def past_damage(journal: Journal) -> Journal:
    """The journal as the command line says to read it."""
    return journal.past_damage(noted) if keeps_going() else journal


def _damage() -> Damage | None:
    context = click.get_current_context(silent=True)
    damage = None if context is None else context.meta.get(_KEY)
    return damage if isinstance(damage, Damage) else None


def _take_down(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    context.meta[_KEY] = given


_OPTION = click.option(
    "--keep-going",
    is_flag=True,
    expose_value=False,
    callback=_take_down,
    help="Read on behind what is damaged: each such place is named on standard error, and the exit code is 1.",
)


def KEEP_GOING(body: Callable[..., Exit]) -> Callable[..., Exit]:  # noqa: N802 -- a decorator, like click's
    """Gives a command the option; `trouper.cli.journals.opened_to_read` sees to the rest."""
    return _OPTION(body)
