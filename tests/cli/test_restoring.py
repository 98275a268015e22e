"""The command ``restore``."""

from __future__ import annotations

import shutil
from pathlib import Path

import trio
from tests.cli.program import called, complaint, objects, ok_called, one_object

from trouper import Agent, Runtime
from trouper.testing import ScriptedModel


def greet(path: Path) -> None:
    agent = Agent("desk", "Help.", model=ScriptedModel(["Hello."]))

    async def main() -> None:
        async with Runtime.open(path, [agent]) as runtime:
            await (await runtime.submit("desk", "Hello?")).wait()

    trio.run(main)


def test_an_older_copy_is_told_and_accepted(tmp_path: Path) -> None:
    path, copy = tmp_path / "desk.db", tmp_path / "copy.db"
    greet(path)
    assert "as it was left" in ok_called("restore", path)
    assert "nothing to accept" in complaint(called("restore", path, "--accept", "--reason", "x"))
    shutil.copy(path, copy)
    assert one_object(ok_called("restore", copy, "--json"))["state"] == "missing"
    greet(path)
    shutil.copy(copy, path)
    done = called("restore", path)
    assert done.returncode == 1
    assert "older copy" in done.stdout
    found = called("restore", path, "--json")
    assert found.returncode == 1
    assert (one_object(found.stdout)["state"], one_object(found.stdout)["accepted"]) == ("rolled_back", False)
    assert called("restore", path, "--accept").returncode == 2
    assert "accepted" in ok_called("restore", path, "--accept", "--as", "maria", "--reason", "the disk died")
    assert one_object(ok_called("restore", path, "--json"))["accepted"] is True
    told = [line for line in objects(ok_called("tail", path, "--no-follow", "--json")) if "data" in line]
    assert [line["type"] for line in told if line["stream"] == "system/restores"] == ["journal.restored"]
    greet(path)
    assert "as it was left" in ok_called("restore", path)
    assert "accepts that the journal was put back" in ok_called("tail", path, "--no-follow", "-n", "100")
    assert called("verify", path).returncode == 0
    assert called("replay", path, "--jobs", "1").returncode == 0
