"""The program ``trouper``: its commands and its way in."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from trouper.cli.archiving import archive
from trouper.cli.codes import Exit
from trouper.cli.completing import completion
from trouper.cli.copying import backup
from trouper.cli.deciding import approve, cancel, deny, resolve, resume
from trouper.cli.demo import demo
from trouper.cli.doctoring import doctor
from trouper.cli.driving import run
from trouper.cli.erasing import erase, keys
from trouper.cli.explaining import diff, why
from trouper.cli.exporting import export
from trouper.cli.json_schemas import schema
from trouper.cli.looking import runs, show, tail
from trouper.cli.output import Output
from trouper.cli.raising import raise_limit
from trouper.cli.replaying import replay
from trouper.cli.rules import rules
from trouper.cli.signing import checkpoint, keygen
from trouper.cli.spend import spend
from trouper.cli.steering import extend, pause, steer
from trouper.cli.talking import send, sessions
from trouper.cli.verifying import prove, verify
from trouper.cli.waiting import approvals

_EPILOG = """
Exit codes: 0 done; 1 what was asked about is bad (a run failed, verify found problems); 2 used wrongly; 3 not found;
4 at odds with what is there (decided otherwise before, journal in use); 5 the journal's storage failed.
"""


_COMMANDS: Final[Sequence[click.Command]] = [
    # to ask
    demo, run, send,
    # to look
    runs, sessions, show, why, diff, spend, tail, approvals,
    # to decide
    approve, deny, rules, resolve, steer, pause, resume, cancel, raise_limit, extend,
    # to check
    verify, replay, doctor,
    # to hand on
    export, archive, backup, keygen, checkpoint, prove,
    # to forget
    erase, keys,
    # for programs
    schema, completion,
]  # fmt: skip


class _Ordered(click.Group):
    """Lists its commands in the order in which a newcomer needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Names of the commands."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's
        """The commands with what each does: a whole sentence, where click would cut it to fit a line."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(1000)) for name, each in self.commands.items()])


@click.group(cls=_Ordered, commands=_COMMANDS, epilog=_EPILOG, invoke_without_command=True)
@click.version_option(package_name="trouper")
@click.pass_context
def trouper(context: click.Context) -> None:
    """Run durable LLM agents, and look into their journals, also while a daemon uses them."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(Exit.USAGE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit.

    Args:
        arguments: The command line; by default the process's own.

    Raises:
        SystemExit: Always, with the exit code; the codes are in the program's help.
    """
    code: int | None = None
    try:
        code = _main(arguments)
        sys.stdout.flush()
    except OSError as error:
        # What waits in the buffer would fail once more at the very end, and with more words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            if code != Exit.STORAGE:
                Output().error(str(error))
            code = Exit.STORAGE
    sys.exit(Exit.OK if code is None else code)


def _main(arguments: Sequence[str] | None) -> int:
    try:
        code: object = trouper.main(arguments, prog_name="trouper", standalone_mode=False)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "trouper"
        Output().error(f"{error.format_message()} Try '{path} --help'.")
        return Exit.USAGE
    except click.ClickException as error:
        Output().error(error.format_message())
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    return code if isinstance(code, int) else Exit.OK
