"""The lock of a journal's one driver: one for a file by whatever name, and free once its holder is dead."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.journal.notes import REGISTRY, Step
from tests.journal.test_processes import child

from trouper_journal import Journal, JournalBroken, JournalInUse, StaleFence, StorageFull, StorageReadOnly
from trouper_journal._lock import DriverLock


async def test_a_forked_child_does_not_hold_the_lock_of_its_killed_parent(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    # The grandchild reads from the child's standard input until that is closed, at the end of the block.
    async with child("fork", path) as parent:
        assert await parent.line() == "forked"
        async with Journal.open(path, registry=REGISTRY) as journal:
            with pytest.raises(JournalInUse, match="parent"):
                async with journal.drive("too early"):
                    raise AssertionError
            parent.process.send_signal(signal.SIGKILL)
            await parent.process.wait()
            async with journal.drive("heir") as fence:
                assert fence == 2


async def test_one_file_has_one_driver_by_whatever_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.symlink("a.db", tmp_path / "link.db")
    async with Journal.open("a.db", registry=REGISTRY) as one, Journal.open(tmp_path / "link.db") as other:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert one.path == other.path
        async with one.drive("first"):
            with pytest.raises(JournalInUse, match="first"):
                async with other.drive("second"):
                    raise AssertionError
        async with other.drive("second") as fence:
            assert fence == 2


async def test_a_driver_whose_side_file_was_deleted_is_still_fenced_out(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("first") as old:
        (tmp_path / "a.db.lock").unlink()
        async with Journal.open(path, registry=REGISTRY) as other, other.drive("second") as new:
            with pytest.raises(StaleFence):
                await journal.append("a", [Step(1)], fence=old)
            await other.append("a", [Step(1)], fence=new)
            with pytest.raises(JournalInUse, match="second"):
                async with journal.drive("third"):
                    raise AssertionError


async def test_a_side_file_that_is_none_is_told(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db") as journal:
        (tmp_path / "a.db.lock").mkdir()
        with pytest.raises(StorageReadOnly, match=r"a\.db\.lock"):
            async with journal.drive("me"):
                raise AssertionError
        (tmp_path / "a.db.lock").rmdir()
        async with journal.drive("me") as fence:
            assert fence == 1


def test_a_lock_without_room_for_its_holders_name_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    lock = DriverLock(str(path))
    (tmp_path / "a.db.lock").symlink_to("/dev/full")
    with pytest.raises(StorageFull, match=r"a\.db\.lock"):
        lock.acquire("me", 0)
    (tmp_path / "a.db.lock").unlink()
    lock.acquire("me", 0)
    lock.release()


async def test_a_file_with_two_names_is_not_opened_by_either(tmp_path: Path) -> None:
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    async with Journal.open(path, registry=REGISTRY):
        pass
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(JournalBroken, match="2 names"):
            async with Journal.open(name):
                raise AssertionError
    os.unlink(other)
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("me") as fence:
        await journal.append("a", [Step(1)], fence=fence)
