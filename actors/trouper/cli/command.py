"""What all commands have in common: ``--json``, ``--debug``, errors in one line, exit codes, a quiet end on signals."""

from __future__ import annotations

import functools
import signal
import traceback
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Concatenate, Final, ParamSpec

import click
import trio

from trouper.cli.codes import Exit, code_of, unwrapped
from trouper.cli.damage import take_note
from trouper.cli.output import Output
from trouper.narration.when import local_times

P = ParamSpec("P")

Body = Callable[Concatenate[Output, P], Exit]


KEYS: Final = "trouper.keys"
"""Where the context of a command keeps which file of keys was named, and which master key."""

_KEYS = click.option(
    "--keys",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file of keys of a sealed journal; JOURNAL.keys by default, where it is there.",
)
MASTER_KEY = click.option(
    "--master-key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The master key's file; by default that of the keys with .master behind it.",
)


_NEVER_SEALED: Final = frozenset({"demo", "keygen"})
"""Commands that have to do with a journal and read nothing in it that could be sealed."""

_METAVARS: Final[dict[type[object], str]] = {
    click.Path: "FILE",
    click.IntRange: "N",
    type(click.INT): "N",
    click.FloatRange: "SECONDS",
    type(click.STRING): "TEXT",
}
"""What stands for an option's value in the help, unless the option says better."""


_LAST: Final = ("keep_going", "archive", "keys", "master_key", "no_pager", "utc", "as_json", "debug")
"""Options that many commands have, which their help shows behind their own."""


def paged_command(body: Callable[Concatenate[Output, P], Exit]) -> click.Command:
    """As `command`, for one whose result may be long: on a terminal it is shown by a pager where it does not fit."""

    @functools.wraps(body)
    def paged(output: Output, /, *args: P.args, **options: P.kwargs) -> Exit:
        with nullcontext() if options.pop("no_pager") else output.paged():
            return body(output, *args, **options)

    made = command(paged)
    made.params.append(click.Option(["--no-pager"], is_flag=True, help="Print a long result at once."))
    made.params.sort(key=_place)
    return made


def command(body: Callable[Concatenate[Output, P], Exit]) -> click.Command:
    """Make a command of a function that prints to an `Output` and returns an exit code."""
    # Whatever opens a journal may need the keys to it.
    given = {each.name for each in getattr(body, "__click_params__", ())}
    sealed = "journal" in given and body.__name__ not in _NEVER_SEALED

    @functools.wraps(body)
    def guarded(*args: P.args, **options: P.kwargs) -> None:
        output = Output(as_json=bool(options.pop("as_json")))
        debug, utc = bool(options.pop("debug")), bool(options.pop("utc"))
        context = click.get_current_context()
        damage = take_note(context, output)
        if sealed:
            context.meta[KEYS] = (options.pop("keys"), options.pop("master_key"))
        try:
            with nullcontext() if utc or output.as_json else local_times():
                code = body(output, *args, **options)
        except click.ClickException:
            raise
        except Exception as error:  # noqa: BLE001 -- the edge of the program: every error becomes a line and a code
            if debug:
                traceback.print_exc()
            code = report(output, unwrapped(error))
        damage.sum_up()
        raise click.exceptions.Exit(Exit.BAD if damage.found and code is Exit.OK else code)

    if sealed:
        guarded = _KEYS(MASTER_KEY(guarded))
    guarded = click.option("--debug", is_flag=True, help="Show the traceback of an error.")(guarded)
    guarded = click.option("--utc", is_flag=True, help="Tell times in UTC, not in the local zone.")(guarded)
    guarded = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(guarded)
    made = click.command(name=body.__name__.replace("_", "-"))(guarded)
    for each in made.params:
        if isinstance(each, click.Option) and each.metavar is None and not each.is_flag:
            each.metavar = _METAVARS.get(type(each.type))
    made.params.sort(key=_place)
    return made


def _place(parameter: click.Parameter) -> int:
    return _LAST.index(parameter.name) if parameter.name in _LAST else -1


def report(output: Output, error: Exception) -> Exit:
    """Say in one line what went wrong."""
    code = code_of(error)
    if code is Exit.DEFECT:
        output.error(f"{type(error).__name__}: {error} (a defect in trouper: run again with --debug for the traceback)")
    else:
        output.error(str(error))
    return code


def run_async(main: Callable[[], Awaitable[Exit]]) -> Exit:
    """Run a command's async part until it returns, or until SIGINT or SIGTERM cancels it.

    Raises:
        Exception: What ``main`` raised, itself and not in a group.
        KeyboardInterrupt: SIGINT came before all was set up, or once more.
    """
    try:
        return trio.run(_until_signalled, main)
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        raise KeyboardInterrupt from None


async def _until_signalled(main: Callable[[], Awaitable[Exit]]) -> Exit:
    code = Exit.INTERRUPTED
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(_cancel_on_signal, nursery.cancel_scope)
        try:
            code = await main()
        except Exception as error:  # noqa: BLE001 -- carried past the nursery, which would wrap it in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return code


async def _cancel_on_signal(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    # The block is left before the scope is cancelled, so that a second Ctrl-C has its usual force.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            break
    scope.cancel()
