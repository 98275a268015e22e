"""Archives a journal in child processes, each killed one step later than the one before, and looks what is left.

Run as a program, because it forks: ``kill_archiver.py JOURNAL FOLDER``. A step is a statement of SQLite, or a call that
changes files. Prints how many steps there were.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import trio
from tests.journal.notes import REGISTRY

from trouper_journal import Archived, Journal, Record
from trouper_journal.archive import beside, is_archive, move_to_archive, open_archive, shrink, write_archive

STEPS = frozenset({"execute", "executemany", "open", "link", "fsync", "unlink", "close"})
WHERE = ("trouper_journal._archive", "trouper_journal._sqlite_connection", "trouper_journal._whole_file")
UNITS = (("a",), ("c",))


async def archive(path: Path, target: Path) -> None:
    """What the command does: write the archive unless it is there, move, shrink."""
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("archiving") as _:
        if not is_archive(target):
            await write_archive(journal, target, UNITS, new_id=b"i" * 16, now=1)
        at = await journal.position()
        await move_to_archive(journal, target, at=at, allowed=lambda _: True)
        await shrink(journal)


async def everything(path: Path, target: Path | None) -> tuple[list[Record], str]:
    if target is None:
        async with Journal.open(path, registry=REGISTRY) as journal:
            return [record async for record in journal.read_all()], await root(journal)
    async with (
        open_archive(target) as store,
        Journal.open(path, registry=REGISTRY, wrap=beside(store)) as journal,
    ):
        return [record async for record in journal.read_all()], await root(journal)


async def root(journal: Journal) -> str:
    found = await journal.verify()
    assert found.ok, found
    return found.root


def killed_at(step: int, path: Path, target: Path) -> bool:
    """Archive in a child that kills itself at that step; whether it came so far."""
    if (child := os.fork()) == 0:
        left = step

        def count(frame: FrameType, event: str, called: object) -> None:
            nonlocal left
            if event == "c_call" and getattr(called, "__name__", "") in STEPS:
                where = frame.f_globals.get("__name__", "")
                if where.startswith(WHERE):
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

        threading.setprofile(count)
        trio.run(archive, path, target)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def main() -> None:
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    before, root_before = trio.run(everything, source, None)
    step = 0
    alive = True
    while alive:
        step += 1
        path, target = folder / f"{step}.db", folder / f"{step}.archive"
        shutil.copy(source, path)
        alive = killed_at(step, path, target)
        there = target if target.exists() else None
        assert trio.run(everything, path, there) == (before, root_before), step
        if there is None:
            assert not any(isinstance(record, Archived) for record in before)
        trio.run(archive, path, target)
        assert trio.run(everything, path, target) == (before, root_before), step
        alone, root_alone = trio.run(everything, path, None)
        assert root_alone == root_before
        assert sum(isinstance(record, Archived) for record in alone) == 4, step
        assert not list(folder.glob(".*.part"))
        for name in (path, target):
            name.unlink()
    print(step)


if __name__ == "__main__":
    main()
