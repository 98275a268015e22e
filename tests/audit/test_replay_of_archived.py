"""What was archived is named, and replayed and counted where its archive is at hand."""

from __future__ import annotations

import os
import shutil
from contextlib import aclosing
from pathlib import Path

import trio
from tests.cli.program import called, ok_called
from tests.golden.found import FOLDER, described, run_of

from trouper import REGISTRY
from trouper.audit import StreamReplay, assert_replays, replay_streams
from trouper_journal import Journal
from trouper_journal.archive import move_to_archive, write_archive

NAME = "runs-1"


def archived(tmp_path: Path) -> tuple[Path, Path, set[str]]:
    """A golden journal, its archive, and the streams that went there: a run, and the first turn of a conversation."""
    path = Path(shutil.copy(FOLDER / f"{NAME}.db", tmp_path / f"{NAME}.db"))
    first, *_ = described(NAME)["sessions"]["cust-1"]["turns"]
    gone = {f"run/{run_of(path, 'answer')}", f"run/{first[0]}"}

    async def main() -> None:
        async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("test"):
            at = await journal.position()
            await write_archive(
                journal, tmp_path / "old.archive", [[each] for each in gone], new_id=os.urandom(16), now=0
            )
            moved = await move_to_archive(journal, tmp_path / "old.archive", at=at, allowed=lambda _: True)
            assert moved.records > 10

    trio.run(main)
    return path, tmp_path / "old.archive", gone


def replayed(path: Path, *archives: Path, jobs: int) -> list[StreamReplay]:
    async def main() -> list[StreamReplay]:
        async with aclosing(replay_streams(path, archives=archives, jobs=jobs)) as results:
            return [each async for each in results]

    return trio.run(main)


def test_archived_runs_are_named_and_everything_else_goes_on(tmp_path: Path) -> None:
    path, archive, gone = archived(tmp_path)
    for jobs in (1, 2):
        found = {each.stream: each for each in replayed(path, jobs=jobs)}
        assert [each for each in found.values() if not each.ok] == []
        not_compared = {each.stream for each in found.values() if each.not_compared == "archived"}
        # The turn after it starts from what is in the archive: its steps are compared, what it starts from cannot be.
        assert gone < not_compared
        assert {found[stream].records for stream in gone} == {0}
        assert all(found[stream].records > 0 for stream in not_compared - gone)
        whole = {each.stream: each for each in replayed(path, archive, jobs=jobs)}
        assert {each.not_compared for each in whole.values()} == {None}
        assert sum(each.records for each in whole.values()) == described(NAME)["records"]
    assert assert_replays(path).not_compared == len(not_compared)
    complete = assert_replays(path, archives=[archive])
    assert (complete.not_compared, complete.records) == (0, described(NAME)["records"])


def test_commands_say_what_is_missing_and_take_the_archive(tmp_path: Path) -> None:
    path, archive, _ = archived(tmp_path)
    assert "the history of 1 run not compared: archived" in ok_called("replay", path)
    assert "archived" not in ok_called("replay", path, "--archive", archive)
    less, whole = called("spend", path), called("spend", path, "--archive", archive)
    assert "(2 runs) not read: archived" in less.stderr
    assert whole.stderr == ""
    original = ok_called("spend", FOLDER / f"{NAME}.db")
    assert whole.stdout == original != less.stdout


def test_archives_of_others_are_refused(tmp_path: Path) -> None:
    path, archive, _ = archived(tmp_path)

    async def make() -> None:
        async with Journal.open(tmp_path / "other.db"):
            pass

    trio.run(make)
    for command in ("replay", "spend"):
        done = called(command, tmp_path / "other.db", "--archive", archive)
        assert done.returncode not in {0, 70}
        assert "is an archive of another journal" in done.stderr
    assert called("spend", path, "--archive", tmp_path / "missing").returncode not in {0, 70}
