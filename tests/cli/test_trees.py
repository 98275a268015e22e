"""Trees of agents on the command line: who is below whom, what waits there, and whom a cancellation reaches."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.cli.program import called, objects, ok_called, one_object

from trouper import Agent, Runtime, tool
from trouper.testing import ScriptedModel, call, calls


@tool(effect="idempotent_write", requires_approval=True)
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


def team() -> Agent:
    """Top calls researcher twice, which calls helper, which wants to send."""

    def model(*steps: object) -> ScriptedModel:
        return ScriptedModel(steps, by_turn=True)  # type: ignore[arg-type]  # steps of any kind

    helper = Agent("helper", tools=[send], model=model(call("send", to="a"), "helped"))
    researcher = Agent("researcher", tools=[helper.as_tool()], model=model(call("helper", input="go"), "found"))
    both = calls(call("researcher", input="x"), call("researcher", input="y"))
    return Agent("top", tools=[researcher.as_tool()], model=model(both, "done"))


async def drive(path: Path, *, end: bool = False) -> str:
    """Drive the team until both helpers wait; if told so, approve both and drive it to its end."""
    with trio.fail_after(30):
        async with Runtime.open(path, [team()]) as runtime, runtime.journal.news() as news:
            run = await runtime.submit("top", "Go.", by="maria", command_id="job")
            while len(asked := await runtime.approvals()) < 2 or runtime.active:
                await news.wait()
            if end:
                for each in asked:
                    await runtime.approve(each.action, by="eve")
                await run.wait()
            return run.id


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A journal with a tree that waits, and its root."""
    path = tmp_path_factory.mktemp("trees") / "team.db"
    return path, trio.run(drive, path)


def test_runs_shows_roots_and_with_all_each_run_under_its_caller(made: tuple[Path, str]) -> None:
    journal, root = made
    done = called("runs", journal)
    assert [row.split()[:3] for row in done.stdout.splitlines()[1:]] == [[root, "top", "waiting_for_child"]]
    assert "4 runs of sub-agents not shown" in done.stderr
    rows = ok_called("runs", journal, "--all").splitlines()[1:]
    order = [root, f"{root}~0.0", f"{root}~0.0~0.0", f"{root}~0.1", f"{root}~0.1~0.0"]
    assert [row.split()[0] for row in rows] == order
    assert [len(row) - len(row.lstrip()) for row in rows] == [0, 2, 4, 2, 4]
    found = objects(ok_called("runs", journal, "--all", "--json"))
    assert [each["parent"] for each in found] == [None, root, f"{root}~0.0", root, f"{root}~0.1"]


def test_a_label_finds_runs_of_sub_agents_too(made: tuple[Path, str]) -> None:
    journal, root = made
    found = objects(ok_called("runs", journal, "--label", "awaiting_approval", "--json"))
    assert sorted(str(each["run"]) for each in found) == [f"{root}~0.0~0.0", f"{root}~0.1~0.0"]


def test_show_names_the_runs_below_with_their_status(made: tuple[Path, str]) -> None:
    journal, root = made
    text = ok_called("show", journal, root)
    lines = text.partition("Sub-agents:")[2].splitlines()[1:]
    assert [line.split() for line in lines] == [
        [f"{root}~0.0", "researcher", "waiting_for_child"],
        [f"{root}~0.0~0.0", "helper", "awaiting_approval"],
        [f"{root}~0.1", "researcher", "waiting_for_child"],
        [f"{root}~0.1~0.0", "helper", "awaiting_approval"],
    ]
    assert f"researcher    0.0 begins run {root}~0.0" in text
    # The beginning of an id means the root; a child is meant where its call is given, too.
    assert ok_called("show", journal, root[:12]).splitlines()[0] == text.splitlines()[0]
    child = ok_called("show", journal, f"{root}~0.1")
    assert f'top           asks researcher: "y"  (for maria; call 0.1 of run {root})' in child
    told = one_object(ok_called("show", journal, root, "--json"))
    below = told["children"]
    assert isinstance(below, list)
    labels = ["waiting_for_child", "waiting_for_child", "awaiting_approval", "awaiting_approval"]
    assert [each["label"] for each in below] == labels


def test_approvals_show_the_path_of_the_caller(made: tuple[Path, str]) -> None:
    journal, root = made
    text = ok_called("approvals", journal)
    assert text.count("top > researcher > helper, asked by maria, wants to call send") == 2
    assert f"approve {journal} '{root}~0.0~0.0/0.0'" in text
    assert [each["path"] for each in objects(ok_called("approvals", journal, "--json"))] == [
        ["top", "researcher", "helper"]
    ] * 2


def test_cancel_says_how_many_runs_it_reaches_and_reaches_them(made: tuple[Path, str], tmp_path: Path) -> None:
    journal = tmp_path / "team.db"
    for suffix in ("", "-wal"):
        if (source := made[0].with_name(made[0].name + suffix)).exists():
            shutil.copy(source, journal.with_name(journal.name + suffix))
    said = ok_called("cancel", journal, made[1], "--as", "maria", "--reason", "enough")
    assert "and with it 4 runs of sub-agents" in said

    async def end() -> None:
        with trio.fail_after(30):
            async with Runtime.open(journal, [team()]) as runtime, runtime.journal.news() as news:
                while not (await runtime.run(made[1]).state()).ended:
                    await news.wait()

    trio.run(end)
    assert {row["label"] for row in objects(ok_called("runs", journal, "--all", "--json"))} == {"cancelled"}
    assert "4 runs" not in called("cancel", journal, made[1], "--as", "maria").stdout


def test_a_tree_that_has_ended_replays_and_verifies(tmp_path: Path) -> None:
    journal = tmp_path / "team.db"
    root = trio.run(partial(drive, journal, end=True))
    assert "done" in ok_called("show", journal, root)
    assert called("replay", journal).returncode == 0
    assert called("verify", journal).returncode == 0
