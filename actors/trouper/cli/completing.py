"""The command ``completion``: what a shell needs to complete ``trouper``."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from trouper.cli.codes import Exit
from trouper.cli.command import command
from trouper.cli.output import Output

_PROGRAM = "trouper"
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@command
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(output: Output, /, shell: str) -> Exit:
    """Print a script that has a shell complete commands, options and files.

    In ~/.bashrc or ~/.zshrc: eval "$(trouper completion bash)", or zsh; for fish: trouper completion fish | source
    """
    complete = _SHELLS[shell](click.Group(_PROGRAM), {}, _PROGRAM, "_TROUPER_COMPLETE")
    # Not `source()`, which for bash first runs a bash, to complain of old ones.
    script = complete.source_template % complete.source_vars()
    if output.as_json:
        output.json({"shell": shell, "script": script})
    else:
        output.raw(script)
    return Exit.OK
