"""docs/cli.md says what is so."""

from __future__ import annotations

import re
import shlex

from tests.cli.program import ROOT, ok_called

from trouper.cli.codes import Exit

PAGE = (ROOT / "docs" / "cli.md").read_text()


def test_every_command_is_described_with_options_that_it_has() -> None:
    commands = ok_called("--help").partition("Commands:")[2].partition("\n\n")[0].splitlines()[1:]
    listed = [line.split()[0] for line in commands if line[:3].strip()]
    shown: dict[str, set[str]] = {}
    for line in re.findall(r"^trouper (.+)$", PAGE, re.MULTILINE):
        name, *words = shlex.split(line, comments=True)
        shown.setdefault(name, set()).update(word for word in words if word.startswith("--"))
    assert shown.keys() == set(listed)
    for name, options in shown.items():
        text = ok_called(name, "--help")
        assert all(option in text for option in options), name


def test_every_option_of_run_is_described() -> None:
    options = set(re.findall(r"(--[a-z-]+)", ok_called("run", "--help"))) - {"--help", "--json", "--debug"}
    assert options <= set(re.findall(r"`(--[a-z-]+)", PAGE))


def test_the_exit_codes_are_those_of_the_program() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == [int(code) for code in Exit]
