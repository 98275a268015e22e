"""The program ``trouper``: its commands and its way in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from typing import Final

import click

from trouper.cli.codes import Exit
from trouper.cli.output import Output

_EPILOG = """
Exit codes: 0 done; 1 what was asked about is bad (a run failed, verify found problems); 2 used wrongly; 3 not found;
4 at odds with what is there (decided otherwise before, journal in use); 5 the journal's storage failed.
"""


_MODULES: Final[Mapping[str, str]] = {
    # to ask
    "demo": "demo", "run": "driving", "send": "talking",
    # to look
    "runs": "looking", "sessions": "talking", "show": "looking", "why": "explaining", "diff": "explaining",
    "spend": "spend", "tail": "looking", "approvals": "waiting",
    # to decide
    "approve": "deciding", "deny": "deciding", "rules": "rules", "resolve": "deciding", "steer": "steering",
    "pause": "steering", "resume": "deciding", "cancel": "deciding", "raise-limit": "raising", "extend": "steering",
    # to check
    "verify": "verifying", "replay": "replaying", "doctor": "doctoring",
    # to hand on
    "export": "exporting", "archive": "archiving", "backup": "copying", "restore": "restoring", "keygen": "signing",
    "checkpoint": "signing", "prove": "proving", "check-proof": "proof_checking",
    # to forget
    "erase": "erasing", "keys": "erasing",
    # for programs
    "schema": "json_schemas", "completion": "completing",
}  # fmt: skip
"""Where each command is, in the order in which they are listed."""


class _Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported when it is first asked for: all of them were a third of the time to start."""

    def __init__(self) -> None:
        self._made: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._made:
            made = getattr(import_module(f"trouper.cli.{_MODULES[name]}"), name.replace("-", "_"))
            self._made[name] = made
        return self._made[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class _Ordered(click.Group):
    """Lists its commands in the order in which a newcomer needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Names of the commands."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's
        """The commands with what each does: a whole sentence, where click would cut it to fit a line."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(1000)) for name, each in self.commands.items()])


@click.group(cls=_Ordered, commands=_Commands(), epilog=_EPILOG, invoke_without_command=True)
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
        told = error.format_message()
        Output().error(f"{told}{'' if told.endswith(('.', ')', '?')) else '.'} Try '{path} --help'.")
        return Exit.USAGE
    except click.ClickException as error:
        Output().error(error.format_message())
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    return code if isinstance(code, int) else Exit.OK
