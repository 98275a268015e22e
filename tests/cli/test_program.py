"""The program as a whole: help, errors, exit codes, pipes, terminals."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import sysconfig
import termios
from pathlib import Path

import pytest
from tests.cli.conftest import Journals
from tests.cli.program import AGENTS, PATIENCE, called, complaint, environment, ok, ok_called, trouper

COMMANDS = [
    "demo", "run", "send", "runs", "sessions", "show", "why", "diff", "tail", "approvals", "approve", "deny",
    "rules", "resolve", "steer", "pause", "resume", "cancel", "raise-limit", "extend", "verify", "replay",
]  # fmt: skip


def test_help_lists_every_command_and_the_exit_codes() -> None:
    text = ok("--help")
    listed = [line.split()[0] for line in text.partition("Commands:")[2].splitlines()[1:] if line[:3].strip()]
    # In the order in which a newcomer needs them; there may be more for those who are none.
    assert [name for name in listed if name in COMMANDS] == COMMANDS
    for code in ("0 done", "1 what was asked about is bad", "2 used wrongly", "3 not", "4 at odds", "5 the journal"):
        assert code in " ".join(text.split())


def test_the_installed_script_is_the_same_program() -> None:
    script = Path(sysconfig.get_path("scripts")) / "trouper"
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout == ok("--version")


def test_without_a_command_it_explains_itself() -> None:
    done = trouper()
    assert done.returncode == 2
    assert "Commands:" in done.stdout


def test_help_imports_no_provider_and_no_server() -> None:
    code = (
        "import sys\n"
        "from trouper.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'openai', 'httpx', 'pydantic', 'jsonschema', 'h11', 'trouper_adapters', 'trouper.testing'}\n"
        "sys.exit(' '.join(sorted(heavy & sys.modules.keys())) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in {"demo", "run"}])
def test_a_mistyped_path_is_not_found_and_makes_no_file(tmp_path: Path, command: str) -> None:
    rest = {
        "show": ["X"],
        "why": ["X"],
        "diff": ["X"],
        "send": ["s", "text"],
        "approve": ["X/0.0"],
        "deny": ["X/0.0"],
        "resolve": ["X/0.0", "applied"],
        "steer": ["X", "text"],
        "pause": ["X"],
        "extend": ["X", "--until", "never"],
        "cancel": ["X"],
        "resume": ["X"],
        "raise-limit": ["X", "--steps", "1"],
    }
    done = called(command, tmp_path / "tpyo.db", *rest.get(command, []))
    assert (done.returncode, done.stdout) == (3, "")
    assert complaint(done) == f"there is no journal {tmp_path / 'tpyo.db'}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["fly"], "No such command 'fly'."),
        (["show"], "Missing argument 'JOURNAL'."),
        (["runs", "j.db", "--colour"], "No such option"),
        (["tail", "j.db", "-n", "-1"], "-1 is not in the range"),
        (["resolve", "j.db", "X/0.0", "perhaps"], "'perhaps' is not one of 'applied'"),
        (["raise-limit", "j.db", "X"], "say what there shall be more of: --steps,"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(given: list[str], why: str) -> None:
    done = called(*given)
    assert done.returncode == 2
    assert why in complaint(done)


def test_debug_shows_where_an_error_comes_from(tmp_path: Path) -> None:
    done = trouper("runs", tmp_path / "tpyo.db", "--debug")
    assert done.returncode == 3
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1] == f"trouper: there is no journal {tmp_path / 'tpyo.db'}"


# Starts a program without root's leave to read and write whatever it likes (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
# PR_CAPBSET_DROP of linux/prctl.h. Other users have none to lose, and are refused the call.
POWERLESS = (
    "import ctypes, os, sys\n"
    "[ctypes.CDLL(None).prctl(24, power, 0, 0, 0) for power in (1, 2)]\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
)


@pytest.mark.parametrize("command", [["runs"], ["verify"], ["show", "X"], ["approve", "X/0.0"]])
def test_a_journal_that_may_not_be_read_is_a_storage_error(
    tmp_path: Path, journals: Journals, command: list[str]
) -> None:
    journals.ended(journal := tmp_path / "j.db")
    journal.chmod(0)
    name, *rest = command
    done = subprocess.run(
        [sys.executable, "-c", POWERLESS, "-m", "trouper.cli", name, str(journal), *rest],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (5, "")
    assert str(journal) in complaint(done)


@pytest.mark.parametrize("columns", ["50", "80", "120"])
def test_no_help_text_is_cut_off(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for command in ([], *([name] for name in COMMANDS)):
        text = ok_called(*command, "--help")
        assert "Options:" in text
        assert "..." not in text.replace("[ARGS]...", "")


def test_a_folder_that_cannot_be_written_to_is_a_storage_error(tmp_path: Path) -> None:
    done = trouper("run", f"{AGENTS}:asker", "Hello", "--journal", tmp_path / "no" / "such" / "j.db")
    assert done.returncode == 5
    assert complaint(done)


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("command", [["runs"], ["show", "0"], ["tail", "--after", "0"], ["verify"], ["replay"]])
def test_a_reader_that_has_gone_away_is_no_error(
    tmp_path: Path, journals: Journals, command: list[str], options: list[str]
) -> None:
    journals.ended(journal := tmp_path / "j.db")
    reader, writer = os.pipe()
    os.close(reader)
    name, *rest = command
    done = subprocess.run(
        [sys.executable, "-m", "trouper.cli", name, str(journal), *rest, *options],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        env=environment(),
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_under_standard_output_is_one_line(tmp_path: Path, journals: Journals) -> None:
    journals.ended(journal := tmp_path / "j.db")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trouper.cli", "runs", str(journal)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 5
    assert complaint(done) == "[Errno 28] No space left on device"


def test_an_encoding_without_the_needed_characters_is_no_error(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "j.db", "hostile")
    done = trouper("show", journal, run, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")


# ---- terminals


def on_terminal(*arguments: str | Path, columns: int, env: dict[str, str] | None = None) -> str:
    """What the program writes to a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "trouper.cli", *map(str, arguments)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment(TERM="xterm-256color", **(env or {})),
    )
    os.close(slave)
    text = b""
    try:
        while part := os.read(master, 65536):
            text += part
    except OSError:  # EIO: the other end is closed
        pass
    os.close(master)
    assert process.wait(timeout=PATIENCE) == 0
    return text.decode().replace("\r\n", "\n")


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]m|\x1b\[[0-9;]*9[0-9]m")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def test_a_terminal_gets_colours_and_lines_of_its_width(tmp_path: Path, journals: Journals) -> None:
    run = journals.waiting(journal := tmp_path / "j.db", "hostile")
    for columns in (60, 100):
        text = on_terminal("show", journal, run, columns=columns)
        assert COLOUR.search(text)
        plain = STYLE.sub("", text)
        assert "\x1b" not in plain
        # A command to type is never broken: half of one in the clipboard is none.
        (command,) = [line for line in plain.splitlines() if "trouper approve" in line]
        assert run in command
        assert max(len(line.rstrip()) for line in plain.splitlines() if "  trouper " not in line) <= columns


def test_no_color_is_honoured_and_files_get_no_escapes(tmp_path: Path, journals: Journals) -> None:
    run = journals.ended(journal := tmp_path / "j.db")
    assert not COLOUR.search(on_terminal("show", journal, run, columns=80, env={"NO_COLOR": "1"}))
    assert "\x1b" not in ok("show", journal, run)


def test_a_terminal_is_not_sent_what_a_model_wrote_as_commands(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    text = on_terminal("run", f"{AGENTS}:asker", "Hello", "--journal", journal, columns=100, env={"NO_COLOR": "1"})
    assert "It is open.\nReally \\x1b[31mred\\x1b[0m.\n" in text


def test_verify_shows_its_progress_on_a_terminal_alone(tmp_path: Path, journals: Journals) -> None:
    journals.ended(journal := tmp_path / "j.db")
    assert "verifying" in on_terminal("verify", journal, columns=100)
    assert trouper("verify", journal).stderr == ""


def test_tail_on_a_terminal_names_a_run_where_it_changes(tmp_path: Path, journals: Journals) -> None:
    run = journals.ended(journal := tmp_path / "j.db")
    text = STYLE.sub("", on_terminal("tail", journal, "--no-follow", "--after", "0", columns=90))
    assert text.count(f"run/{run}\n") >= 1
    assert max(map(len, text.splitlines())) <= 90
