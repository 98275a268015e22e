"""Runs what pages tell their readers to type.

A page takes part from the console block on that says ``trouper demo --journal desk.db``: that journal is made once for
all pages, because it takes seconds, and each page gets a copy of it. Every later console block of the page is run, line
by line, in the page's folder, and must end with exit code 0, or with the code that its comment names (``exit code 1``).
``RUN`` stands for the run of the demo, as it does for readers; any other word in capitals (``FORK``) for the text that
the page's Python has under that name (``fork``). A page whose Python has made a sealed journal takes part, too: there
``RUN`` is its own.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

from sybil import Example

from trouper.cli import main

_DEMO = ["trouper", "demo", "--journal", "desk.db"]
_RUN = "_run_of_the_demo"


@cache
def _demo() -> tuple[tempfile.TemporaryDirectory[str], str]:
    """A folder with the demo's journal, for as long as the tests run, and the id of its run."""
    folder = tempfile.TemporaryDirectory()
    _called([*_DEMO[:-1], str(Path(folder.name) / _DEMO[-1])])
    said = _called(["trouper", "runs", str(Path(folder.name) / _DEMO[-1]), "--json"])
    (run,) = re.findall(r'"run": "(\w+)"', said)
    return folder, run


def _called(words: list[str], code: int = 0) -> str:
    """What a ``trouper`` command prints, run in this process."""
    ended: object = None
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            main(words[1:])
        except SystemExit as exited:
            ended = exited.code
    assert ended == code, f"{shlex.join(words)} ended with {ended!r}: {out.getvalue()}{err.getvalue()}"
    return out.getvalue()


def _by_a_shell(line: str, code: int) -> None:
    """Run a line with pipes, redirections or other programs."""
    python = shlex.quote(sys.executable)
    head = f'trouper() {{ {python} -m trouper.cli "$@"; }}; python3() {{ {python} "$@"; }}; set -o pipefail\n'
    done = subprocess.run(["bash", "-c", head + line], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"{line} ended with {done.returncode}: {done.stdout}{done.stderr}"


def run_console(example: Example) -> None:
    """Run a console block, where its page works on the demo's journal."""
    for line in example.parsed.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words == _DEMO:
            folder, example.namespace[_RUN] = _demo()
            shutil.copytree(folder.name, ".", dirs_exist_ok=True)
        elif words and (_RUN in example.namespace or Path("desk.db.keys").exists()):
            ends = re.search(r"#.*exit code (\d+)", line)
            code = int(ends[1]) if ends else 0
            if words[0] == "trouper" and not re.search(r"[|>$*&;]", re.sub(r"'[^']*'|#.*", "", line)):
                _called([_filled_in(word, example.namespace) for word in words], code)
            else:
                _by_a_shell(_filled_in(line, example.namespace), code)


def _filled_in(text: str, names: dict[str, object]) -> str:
    def value(found: re.Match[str]) -> str:
        meant = names.get(_RUN) if found[0] == "RUN" and _RUN in names else names.get(found[0].lower())
        return meant if isinstance(meant, str) else found[0]

    return re.sub(r"\b[A-Z]{3,}\b", value, text)
