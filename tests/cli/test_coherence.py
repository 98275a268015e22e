"""What all commands have in common: options, what is told where there is nothing, and where it is told."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import cast

import click
import pytest
import trio
from tests.audit.conftest import GOLDEN
from tests.cli.program import called, complaint, objects, ok_called, one_object

from trouper.cli.app import trouper
from trouper_journal import Journal

MEANS_ANOTHER_THING = {
    "--after", "--command-id", "--full", "--journal", "--out", "--reason", "--run", "--session", "--until", "--witness",
    "-n",
}  # fmt: skip
"""Options of which the help must say something else in each command."""


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    async def make() -> None:
        async with Journal.open(tmp_path / "empty.db"):
            pass

    trio.run(make)
    return tmp_path / "empty.db"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copy(GOLDEN / "runs-1.db", tmp_path / "runs.db"))


def options() -> list[tuple[str, click.Option]]:
    return [
        (name, option)
        for name, command in trouper.commands.items()
        for option in command.params
        if isinstance(option, click.Option)
    ]


def test_an_option_is_told_alike_in_all_commands() -> None:
    told: dict[str, set[tuple[str | None, str | None]]] = defaultdict(set)
    for name, option in options():
        if name != "run":
            told[option.opts[0]].add((option.metavar, option.help))
    assert {option for option, ways in told.items() if len(ways) > 1} <= MEANS_ANOTHER_THING
    assert [option for option, ways in told.items() if not all(text for _, text in ways)] == []


def test_what_stands_for_a_value_is_told_alike() -> None:
    for name, option in options():
        if isinstance(option.type, click.Path):
            assert option.metavar == "FILE", (name, option.opts)
        elif not option.is_flag and not isinstance(option.type, click.Choice):
            assert option.metavar is not None, (name, option.opts)
            assert all(word.isupper() for word in option.metavar.split()), (name, option.opts)


def test_the_help_begins_with_what_is_the_commands_own() -> None:
    shared = {"--archive", "--keys", "--master-key", "--no-pager", "--utc", "--json", "--debug"}
    for name, command in trouper.commands.items():
        given = [option.opts[0] for option in command.params if isinstance(option, click.Option)]
        assert given[-3:] == ["--utc", "--json", "--debug"], name
        behind = [each for each in given if each in shared]
        assert given[len(given) - len(behind) :] == behind, name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runs"], "no runs yet"),
        (["runs", "--label", "running"], "no runs yet"),
        (["sessions"], "no sessions yet"),
        (["tail", "--no-follow"], "no records yet"),
        (["tail", "--no-follow", "--after", "7"], "no records behind position 7"),
        (["approvals"], "nothing waits for a person"),
        (["rules"], "there are no standing rules"),
        (["replay"], "no runs yet"),
        (["spend"], "nothing was spent yet"),
    ],
)
def test_that_there_is_nothing_is_the_answer(empty: Path, arguments: list[str], words: str) -> None:
    verb, *rest = arguments
    done = called(verb, empty, *rest)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{words}\n", "")
    done = called(verb, empty, *rest, "--json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_names_neither_a_run_nor_a_call_is_used_wrongly(empty: Path) -> None:
    for verb, given in (("why", "R/x"), ("approve", "R/x"), ("resolve", "R")):
        rest = ["applied"] if verb == "resolve" else []
        done = called(verb, empty, given, *rest)
        assert (done.returncode, "does not name a call" in done.stderr) == (2, True), verb


def test_a_line_of_tail_says_when_in_which_zone(empty: Path) -> None:
    ok_called("send", empty, "s", "hello", "--agent", "desk", "--as", "maria")
    (line, *_) = ok_called("tail", empty, "--no-follow", "--utc").splitlines()
    first = objects(ok_called("tail", empty, "--no-follow", "--json"))[0]
    assert line.split()[1] == f"{str(first['recorded_at'])[:23]}Z"


def test_a_copy_of_evidence_can_be_written_to_by_its_owner(empty: Path, tmp_path: Path) -> None:
    ok_called("send", empty, "s", "hello", "--agent", "desk", "--as", "maria")
    empty.chmod(0o444)
    ok_called("backup", empty, "--out", copy := tmp_path / "copy.db")
    assert copy.stat().st_mode & 0o777 == 0o644


def test_what_is_spent_below_a_run_is_said_to_be_in_its_sum(golden: Path) -> None:
    rows = objects(ok_called("runs", golden, "--all", "--json", "-n", "0"))
    parent = str(next(row["parent"] for row in rows if row["parent"]))
    (_, head, *_) = ok_called("show", golden, parent).splitlines()
    assert head.endswith(", with its sub-agents")
    parents = {row["parent"] for row in rows}
    alone = next(str(row["run"]) for row in rows if row["parent"] and row["run"] not in parents)
    assert "sub-agents" not in ok_called("show", golden, alone).splitlines()[1]


def test_a_call_where_a_run_is_asked_for_is_told_apart(golden: Path) -> None:
    run = str(objects(ok_called("runs", golden, "--json"))[0]["run"])
    for verb in ("show", "replay"):
        done = called(verb, golden, f"{run}/1.0")
        assert (done.returncode, complaint(done).endswith(f"leave out the call behind it: {run}")) == (3, True)


def test_one_is_counted_in_the_singular_and_two_are_not(empty: Path) -> None:
    ok_called("send", empty, "s", "hello", "--agent", "desk", "--as", "maria")
    empty.chmod(0o644)
    found = one_object(ok_called("doctor", empty, "--json"))["findings"]
    notes = sum(each["severity"] == "note" for each in cast("list[dict[str, object]]", found))
    last = ok_called("doctor", empty).splitlines()[-1]
    assert last.endswith("1 note" if notes == 1 else f"{notes} notes")


def test_a_number_beyond_all_numbers_is_taken_or_refused(golden: Path) -> None:
    """By every command that asks for a number: whatever else is wrong with the command line."""
    huge, asked = str(10**20), 0
    for name, command in trouper.commands.items():
        for option in command.params:
            if isinstance(option, click.Option) and isinstance(option.type, click.types.IntParamType):
                more = [option.opts[0], huge, *(["--no-follow"] if name == "tail" else [])]
                done = called(name, golden, *more)
                assert done.returncode not in {70, 130}, (name, more, done.stderr)
                asked += 1
    assert asked > 10
