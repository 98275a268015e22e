"""A runtime over a journal from which runs were archived goes on as if they were there, and says where they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from trouper import REGISTRY, Agent, Runtime
from trouper.audit.archivable import Selection
from trouper.audit.archiving import archive_finished
from trouper.runtime import Commands, Task
from trouper.testing import ScriptedModel
from trouper_journal import Journal, RecordArchived


def desk(*replies: str) -> Agent:
    return Agent("desk", model=ScriptedModel(list(replies)))


async def test_the_daemon_goes_on_and_a_command_given_again_finds_its_run(tmp_path: Path) -> None:
    path, target = tmp_path / "desk.db", tmp_path / "desk.archive"
    async with Runtime.open(path, agents=[desk("One.", "Two.")]) as runtime:
        old = await runtime.submit("desk", "first", command_id="1")
        await old.wait()
        turn = await runtime.session("desk", "talk").send("hello")
        await turn.wait()
    async with Journal.open(path, registry=REGISTRY) as journal:
        stages: list[str] = []
        async with trio.open_nursery() as nursery:

            def told(stage: str, _done: int, _total: int) -> None:
                if stage not in stages:
                    stages.append(stage)
                    # Somebody gives a command while it is going on.
                    task = Task("desk", f"during {stage}")
                    nursery.start_soon(Commands(journal).submit, task, stage)

            selection = Selection(runs=(old.id,), sessions=("talk",))
            done = await archive_finished(journal, target, selection, progress=told)
        assert stages == ["writing", "moving"]
        assert done.archive is not None
        assert done.moved == done.archive.records
    async with Runtime.open(path, agents=[desk("Three.", "Four.", "Five.")]) as runtime:
        for stage in stages:
            assert (await (await runtime.submit("desk", f"during {stage}", command_id=stage)).wait()).output
        with pytest.raises(RecordArchived, match=r"was archived to desk\.archive"):
            await (await runtime.submit("desk", "first", command_id="1")).wait()
        new = await runtime.submit("desk", "third", command_id="3")
        assert (await new.wait()).output
        assert (await runtime.journal.verify()).ok
