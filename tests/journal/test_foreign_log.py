"""The log that a crash left, beside a copy that was put in the file's place: refused for writing, and not spoilt."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.journal.notes import REGISTRY, Note

from trouper_journal import Journal, JournalCorrupt
from trouper_journal.backup import back_up
from trouper_journal.rollback import check_log

DIES = """
import os, signal, sys
import trio
from tests.journal.notes import REGISTRY, Note
from trouper_journal import Journal


async def main():
    async with Journal.open(sys.argv[1], registry=REGISTRY) as journal:
        for number in range(int(sys.argv[2])):
            await journal.append(f"late{number}", [Note(number, "x" * 500)])
        os.kill(os.getpid(), signal.SIGKILL)


trio.run(main)
"""


async def written(path: Path, first: int, last: int) -> None:
    async with Journal.open(path, registry=REGISTRY) as journal:
        for number in range(first, last):
            await journal.append("early", [Note(number, "x" * 500)])


def killed(path: Path, number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(path), str(number)], cwd=Path(__file__).parents[2], capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def seen(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.iterdir() if each.name.startswith(path.name)}


@pytest.mark.parametrize("late", [1, 40])
async def test_a_log_of_the_file_that_was_replaced_is_refused_and_kept(tmp_path: Path, late: int) -> None:
    path, copy = tmp_path / "j.db", tmp_path / "copy.db"
    await written(path, 0, 20)
    await back_up(path, copy)
    await written(path, 20, 60)
    killed(path, late)
    shutil.copy(copy, path)
    before = seen(path)
    assert set(before) >= {"j.db", "j.db-wal", "j.db-shm"}
    with pytest.raises(JournalCorrupt, match=r"position 21: .*move .*-wal and .*-shm away") as caught:
        async with Journal.open(path, registry=REGISTRY):
            pass
    assert caught.value.position == 21
    assert seen(path) == before
    for ending in ("-wal", "-shm"):
        os.unlink(f"{path}{ending}")
    async with Journal.open(path, registry=REGISTRY) as journal:
        assert await journal.position() == 20
        assert (await journal.verify()).ok


async def test_the_log_of_the_file_itself_is_its_own(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    await written(path, 0, 20)
    killed(path, 40)
    async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
        await check_log(journal)
    async with Journal.open(path, registry=REGISTRY) as journal, Journal.open(path, registry=REGISTRY) as other:
        assert await journal.position() == 60
        # Beside somebody who writes, too.
        for number in range(300):
            await journal.append("more", [Note(number, "x" * 20_000)])
            if number % 20 == 0:
                await check_log(other)
                async with Journal.open(path, registry=REGISTRY) as third:
                    assert await third.position() == 61 + number
        assert (await other.verify()).ok
