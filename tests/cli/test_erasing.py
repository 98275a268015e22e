"""Commands on sealed journals: erase, rotate, and all others with the keys or without."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from tests.cli.program import called, complaint, objects, ok_called, one_object

from trouper import Agent, Runtime, tool
from trouper.testing import ScriptedModel, call
from trouper_journal.sealing import FileKeyStore

SECRET = "Amelia Earhart"


@tool(requires_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


@pytest.fixture
def sealed(tmp_path: Path) -> tuple[Path, list[str], str]:
    """A sealed journal with its keys beside it; the runs of session ``s1``, and a run that is in none."""
    path = tmp_path / "desk.db"
    agent = Agent("desk", "Help.", model=ScriptedModel([f"Hello, {SECRET}."] * 3))

    async def main() -> tuple[list[str], str]:
        async with Runtime.open(path, [agent], keys=FileKeyStore(f"{path}.keys")) as runtime:
            session = runtime.session("desk", "s1")
            turns = [(await (await session.send(f"I am {SECRET}")).wait()).run for _ in range(2)]
            return turns, (await (await runtime.submit("desk", SECRET)).wait()).run

    return (path, *trio.run(main))


def test_a_session_is_erased_and_the_others_stay(sealed: tuple[Path, list[str], str]) -> None:
    path, turns, other = sealed
    assert SECRET in ok_called("show", path, turns[0])
    done = one_object(ok_called("erase", path, "--session", "s1", "--as", "maria", "--reason", "she left", "--json"))
    assert (done["domain"], done["runs"], done["plain"]) == ("session/s1", turns, 0)
    shown = called("show", path, turns[0])
    assert SECRET not in shown.stdout
    assert "[erased]" in shown.stdout
    assert "its key" in shown.stderr
    assert "was destroyed" in shown.stderr
    assert SECRET in ok_called("show", path, other)
    assert called("verify", path).returncode == 0
    assert called("replay", path).returncode == 0
    told = [line for line in objects(ok_called("tail", path, "--no-follow", "-n", "100", "--json")) if "data" in line]
    assert [line["type"] for line in told if line["stream"] == "system/erasures"] == [
        "erasure.ordered",
        "erasure.carried_out",
    ]
    assert "was erased before" in ok_called("erase", path, "--session", "s1", "--reason", "again")


def test_the_keys_may_be_elsewhere_and_without_them_content_is_withheld(
    sealed: tuple[Path, list[str], str], tmp_path: Path
) -> None:
    path, _, other = sealed
    away = tmp_path / "vault"
    away.mkdir()
    keys, master = away / "keys", away / "master"
    Path(f"{path}.keys").rename(keys)
    Path(f"{path}.keys.master").rename(master)
    shown = called("show", path, other)
    assert SECRET not in shown.stdout
    assert "no keys were given" in shown.stderr
    refused = called("erase", path, "--run", other, "--reason", "x")
    assert refused.returncode == 4
    assert "it is sealed, and the journal was opened without keys" in complaint(refused)
    named: list[str | Path] = ["--keys", keys, "--master-key", master]
    assert SECRET in ok_called("show", path, other, *named)
    assert "nobody can read" in ok_called("erase", path, "--run", other, "--reason", "x", *named)
    assert SECRET not in ok_called("show", path, other, *named)
    nowhere = tmp_path / "nowhere"
    options: tuple[list[str | Path], ...] = (["--keys", nowhere], ["--keys", keys, "--master-key", nowhere])
    for missing in options:
        refused = called("show", path, other, *missing)
        assert (refused.returncode, "nowhere" in complaint(refused)) == (3, True), missing


def test_what_cannot_be_erased_is_said(sealed: tuple[Path, list[str], str]) -> None:
    path, turns, _ = sealed
    for arguments, code in (
        (["--run", turns[0], "--reason", "x"], 4),
        (["--run", "nobody", "--reason", "x"], 3),
        (["--session", "nobody", "--reason", "x"], 3),
        (["--reason", "x"], 2),
        (["--session", "s1", "--run", turns[0], "--reason", "x"], 2),
        (["--session", "s1"], 2),
    ):
        assert called("erase", path, *arguments).returncode == code, arguments
    assert SECRET in ok_called("show", path, turns[0])


def test_nothing_is_erased_by_the_beginning_of_an_id(sealed: tuple[Path, list[str], str]) -> None:
    path, _, other = sealed
    refused = called("erase", path, "--run", other[:-1], "--reason", "x")
    assert refused.returncode == 2
    assert f"say --run {other}" in complaint(refused)
    assert SECRET in ok_called("show", path, other)


def test_replay_does_not_say_that_it_compared_what_was_erased(sealed: tuple[Path, list[str], str]) -> None:
    path, _, other = sealed
    ok_called("erase", path, "--session", "s1", "--reason", "x")
    told = ok_called("replay", path)
    assert "the rules take the recorded steps; of 2 runs not all could be compared" in told
    ok_called("erase", path, "--run", other, "--reason", "x")
    told = ok_called("replay", path)
    assert "none could be compared to its end" in told
    assert "take the recorded steps" not in told


def test_a_journal_that_was_never_sealed_has_nothing_to_erase(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"

    async def main() -> str:
        async with Runtime.open(path, [Agent("desk", "Help.", model=ScriptedModel(["Hello."] * 2))]) as runtime:
            await (await runtime.session("desk", "s1").send("hi")).wait()
            return (await (await runtime.submit("desk", "hi")).wait()).run

    run = trio.run(main)
    for subject in (["--run", run], ["--session", "s1"]):
        refused = called("erase", path, *subject, "--reason", "x")
        assert refused.returncode == 4
        assert "its content was never sealed" in complaint(refused)


def test_what_is_archived_is_erased_and_counted_where_the_archive_is_given(
    sealed: tuple[Path, list[str], str], tmp_path: Path
) -> None:
    path, turns, other = sealed
    archive = tmp_path / "old.archive"
    ok_called("archive", path, "--out", archive, "--session", "s1", "--as", "maria")
    assert SECRET in ok_called("show", path, turns[0], "--archive", archive)
    asked: list[str | Path] = ["erase", path, "--session", "s1", "--reason", "x"]
    elsewhere = one_object(ok_called("erase", path, "--run", other, "--reason", "x", "--json"))
    assert (elsewhere["copies"], elsewhere["unread"]) == ([], 2)
    done = one_object(ok_called(*asked, "--archive", archive, "--json"))
    assert done["unread"] == 0
    assert (done["runs"], done["archived"]) == (turns, 0)
    assert int(str(done["records"])) > 5
    assert SECRET not in called("show", path, turns[0], "--archive", archive).stdout
    assert called(*asked, "--archive", tmp_path / "nowhere").returncode == 3


def test_an_archived_session_is_erased_though_its_archive_is_lost(
    sealed: tuple[Path, list[str], str], tmp_path: Path
) -> None:
    path, turns, _ = sealed
    archive = tmp_path / "old.archive"
    ok_called("archive", path, "--out", archive, "--session", "s1", "--as", "maria")
    archive.rename(copy := tmp_path / "copy.archive")
    done = called("erase", path, "--session", "s1", "--reason", "x")
    assert done.returncode == 0
    assert "which runs it had stands in its archive" in done.stderr
    assert SECRET not in called("show", path, turns[0], "--archive", copy).stdout
    assert called("erase", path, "--session", "s9", "--reason", "x").returncode == 3


def test_the_master_key_is_rotated(sealed: tuple[Path, list[str], str], tmp_path: Path) -> None:
    path, _, other = sealed
    before = Path(f"{path}.keys.master").read_bytes()
    done = one_object(ok_called("keys", "rotate", f"{path}.keys", "--json"))
    assert done["rewrapped"] == 2
    assert Path(f"{path}.keys.master").read_bytes() != before
    assert SECRET in ok_called("show", path, other)
    assert called("keys", "rotate", tmp_path / "nowhere").returncode == 3
    assert called("keys", "rotate", f"{path}.keys", "--master-key", tmp_path / "nowhere").returncode == 3


def test_run_seals_where_it_is_given_keys(tmp_path: Path) -> None:
    agents = tmp_path / "desk.py"
    agents.write_text(
        "from trouper import Agent\n"
        "from trouper.testing import ScriptedModel\n"
        f"desk = Agent('desk', 'Help.', model=ScriptedModel(['Hello, {SECRET}.']))\n"
    )
    path = tmp_path / "desk.db"
    keys = ["--keys", f"{path}.keys"]
    assert SECRET in ok_called("run", f"{agents}:desk", SECRET, "--journal", path, *keys)
    assert SECRET.encode() not in path.read_bytes()
    assert SECRET in ok_called("tail", path, "--no-follow", "-n", "100")


def test_an_answer_that_cannot_be_read_is_not_shown_as_an_empty_one(sealed: tuple[Path, list[str], str]) -> None:
    path, _, other = sealed
    ok_called("erase", path, "--run", other, "--reason", "x")
    assert ok_called("show", path, other).rstrip().endswith("[erased]")
    assert one_object(ok_called("show", path, other, "--json"))["output"] == {"$erased": True}


def test_doctor_looks_into_sealed_content_where_it_has_the_keys(
    sealed: tuple[Path, list[str], str], tmp_path: Path
) -> None:
    path, _, _ = sealed
    assert "sealed" not in called("doctor", path).stdout
    Path(f"{path}.keys").rename(tmp_path / "away")
    assert "with content that is sealed could not be looked through" in called("doctor", path).stdout


def test_doctor_sends_nobody_to_look_for_keys_that_were_destroyed(sealed: tuple[Path, list[str], str]) -> None:
    path = sealed[0]
    ok_called("erase", path, "--session", "s1", "--reason", "she left")
    told = ok_called("doctor", path)
    assert "with content that was erased could not be looked through" in told
    assert "look through them where their keys are" not in told


def test_nobody_is_asked_to_decide_on_what_they_cannot_see(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"

    async def main() -> None:
        agent = Agent("desk", "Help.", tools=[pay], model=ScriptedModel([call("pay", to=SECRET)]))
        keys = FileKeyStore(tmp_path / "away")
        async with Runtime.open(path, [agent], keys=keys) as runtime, runtime.journal.news() as news:
            run = await runtime.submit("desk", SECRET)
            while not (await runtime.commands.state(run.id)).awaiting:
                await news.wait()

    trio.run(main)
    shown = ok_called("approvals", path)
    assert "[erased]" in shown
    assert "trouper approve" not in shown
    shown = ok_called("approvals", path, "--keys", tmp_path / "away")
    assert SECRET in shown
    assert "trouper approve" in shown
    (line,) = objects(ok_called("approvals", path, "--json"))
    refused = called("approve", path, str(line["action"]))
    assert refused.returncode == 4
    assert "no key for it is at hand" in complaint(refused)
