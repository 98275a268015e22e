"""Replay: from the records alone, over one run or the whole journal, with both sides of the first difference."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing
from pathlib import Path

import msgpack
import pytest
import trio
from tests.audit.tampering import forged
from tests.golden.found import FOLDER, described, run_of

from trouper import REGISTRY
from trouper.audit import ReplayProblem, StreamReplay, replay_streams
from trouper.core.events import RunSucceeded
from trouper.core.replay import check
from trouper.errors import JournalError, UnknownRun
from trouper_journal import Journal
from trouper_journal._workers import spread

NAME = "runs-1"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return Path(shutil.copy(FOLDER / f"{NAME}.db", tmp_path / f"{NAME}.db"))


async def replayed(path: Path, run: str | None = None, jobs: int | None = None) -> list[StreamReplay]:
    async with aclosing(replay_streams(path, run, jobs=jobs)) as results:
        return [each async for each in results]


def position_of(path: Path, stream: str, type_: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        query = (
            "SELECT e.position FROM events e JOIN streams s ON s.id = e.stream_id WHERE s.name = ? AND e.type = ? "
            "ORDER BY e.position"
        )
        found: int = database.execute(query, (stream, type_)).fetchone()[0]
        return found


async def one_problem(path: Path) -> ReplayProblem:
    (problem,) = [each.problem for each in await replayed(path) if each.problem is not None]
    return problem


async def test_the_whole_journal_is_folded_without_any_agent(journal: Path) -> None:
    found = await replayed(journal)
    assert [each for each in found if not each.ok] == []
    assert {each.stream.removeprefix("run/") for each in found if each.run} == described(NAME)["runs"].keys()
    assert sum(each.records for each in found) == described(NAME)["records"]


async def test_processes_find_what_one_finds_in_the_same_order(journal: Path) -> None:
    forged(journal, "UPDATE events SET schema = 99 WHERE type = 'action.receipted'")
    alone = await replayed(journal, jobs=1)
    assert await replayed(journal, jobs=2) == alone
    assert {each.problem.kind for each in alone if each.problem} == {"unknown", "history"}


async def test_processes_show_both_sides_of_a_difference_as_one_does(journal: Path) -> None:
    started_before_it_was_approved(journal)
    alone = await replayed(journal, jobs=1)
    assert await replayed(journal, jobs=2) == alone
    (problem,) = [each.problem for each in alone if each.problem]
    assert (bool(problem.recorded), bool(problem.named), bool(problem.state)) == (True, True, True)


def started_before_it_was_approved(path: Path) -> tuple[str, int]:
    """Let the record say that the other call was started first, which nobody had approved; where it does."""
    stream = f"run/{run_of(path, 'approve')}"
    at = position_of(path, stream, "action.started")
    forged(path, "UPDATE events SET facts = ? WHERE position = ?", msgpack.packb({"action": "0.1", "attempt": 1}), at)
    return stream, at


async def test_one_run_alone(journal: Path) -> None:
    run = run_of(journal, "approve")
    (found,) = await replayed(journal, run)
    assert (found.stream, found.ok) == (f"run/{run}", True)
    assert found.run is not None
    assert (found.run.agent, found.run.ended) == ("desk", True)
    with pytest.raises(UnknownRun):
        await replayed(journal, "01NOBODY")
    with pytest.raises(FileNotFoundError):
        await replayed(journal.with_name("missing.db"))
    with pytest.raises(ValueError, match="jobs: 0"):
        await replayed(journal, jobs=0)


async def test_a_difference_shows_both_sides_and_what_the_run_was(journal: Path) -> None:
    stream, at = started_before_it_was_approved(journal)
    found = await one_problem(journal)
    assert (found.kind, found.stream, found.position) == ("step", stream, at)
    assert found.recorded is not None
    assert found.recorded["type"] == "action.started"
    assert found.named is not None
    assert [step["step"] for step in found.named] != []
    assert found.state is not None
    assert found.state["phase"] == "running"
    calls = found.state["calls"]
    assert isinstance(calls, list)
    assert [call["action"] for call in calls] == ["0.1"]


async def test_every_intent_that_becomes_another_is_found(journal: Path) -> None:
    """Wherever the driver intended something, a run that says it was done instead differs, at that very version."""
    tried, driven = 0, {spec.cls for spec in REGISTRY if spec.driver}
    async with Journal.open(journal, registry=REGISTRY) as opened:
        async for head in opened.streams(prefix="run/"):
            events = [opened.registry.decode(record) async for record in opened.read(head.stream)]
            run = head.stream.removeprefix("run/")
            for at, event in enumerate(events):
                if type(event) not in driven or isinstance(event, RunSucceeded):
                    continue
                _, before = check(run, events[:at])
                _, found = check(run, [*events[:at], RunSucceeded()])
                assert before is None
                if found is None:
                    # It could have succeeded here, and what was recorded is an outcome of something else.
                    continue
                assert found.version == at + 1
                tried += 1
    assert tried > 200


STARTED = " WHERE type = 'run.started' AND stream_id = (SELECT id FROM streams WHERE name = ?)"

TAMPERED: list[tuple[str, str, str, Callable[[ReplayProblem], bool]]] = [
    (
        "a missing version",
        "DELETE FROM events",
        "corrupt",
        lambda problem: "missing" in problem.message and problem.position is not None,
    ),
    (
        "bytes that are no map",
        "UPDATE events SET facts = x'c1'",
        "corrupt",
        lambda problem: problem.position is not None,
    ),
    (
        "an event of a release to come",
        "UPDATE events SET type = 'run.teleported'",
        "unknown",
        lambda problem: "run.teleported" in problem.message,
    ),
    (
        "an event that belongs elsewhere",
        "UPDATE events SET type = 'driver.started', facts = x'82a565706f636801a46e6f6465a178'",
        "fold",
        lambda problem: "driver.started at version 2 cannot be folded" in problem.message,
    ),
]


@pytest.mark.parametrize(("what", "statement", "kind", "fits"), TAMPERED, ids=[case[0] for case in TAMPERED])
async def test_what_cannot_be_folded_is_named_and_the_rest_goes_on(
    journal: Path, what: str, statement: str, kind: str, fits: Callable[[ReplayProblem], bool]
) -> None:
    stream = f"run/{run_of(journal, 'answer')}"
    forged(journal, statement + STARTED, stream)
    found = await replayed(journal)
    (problem,) = [each.problem for each in found if each.problem is not None]
    assert (problem.stream, problem.kind) == (stream, kind), problem
    assert fits(problem), problem
    assert len([each for each in found if each.ok]) == len(found) - 1


async def test_a_definition_must_have_its_digest(journal: Path) -> None:
    async with Journal.open(journal, registry=REGISTRY) as opened:
        (record, *_) = [
            record async for head in opened.streams(prefix="definition/") async for record in opened.read(head.stream)
        ]
    content = record.content.replace(b"instructions", b"instruktions")
    assert content != record.content
    forged(journal, "UPDATE events SET content = ? WHERE position = ?", content, record.position)
    found = await one_problem(journal)
    assert (found.kind, found.stream, found.position) == ("definition", record.stream, record.position)


async def test_erased_content_is_folded_and_not_compared(journal: Path) -> None:
    run = run_of(journal, "approve")
    forged(
        journal,
        "UPDATE events SET key_id = 'destroyed' WHERE stream_id = (SELECT id FROM streams WHERE name = ?)",
        f"run/{run}",
    )
    (found,) = [each for each in await replayed(journal) if each.stream == f"run/{run}"]
    assert (found.ok, found.not_compared) == (True, "erased")
    assert found.records == len(described(NAME)["runs"][run]["events"])


async def test_other_rules_are_named_and_not_compared(journal: Path) -> None:
    run = run_of(journal, "answer")
    at = position_of(journal, f"run/{run}", "run.started")
    with closing(sqlite3.connect(journal)) as database:
        facts = msgpack.unpackb(database.execute("SELECT facts FROM events WHERE position = ?", (at,)).fetchone()[0])
    forged(journal, "UPDATE events SET facts = ? WHERE position = ?", msgpack.packb({**facts, "rules": 7}), at)
    (found,) = await replayed(journal, run)
    assert (found.ok, found.not_compared) == (True, "rules 7")


async def test_a_run_whose_history_was_changed_is_found(journal: Path) -> None:
    first, *_ = described(NAME)["sessions"]["cust-1"]["turns"]
    at = position_of(journal, f"run/{first[0]}", "model.responded")
    with closing(sqlite3.connect(journal)) as database:
        content = database.execute("SELECT content FROM events WHERE position = ?", (at,)).fetchone()[0]
    said = msgpack.unpackb(content[16:])
    said["text"] = "I never said that."
    forged(journal, "UPDATE events SET content = ? WHERE position = ?", content[:16] + msgpack.packb(said), at)
    kinds = {each.problem.kind for each in await replayed(journal) if each.problem is not None}
    assert kinds == {"history"}


async def test_snapshots_are_not_looked_at(journal: Path) -> None:
    run = run_of(journal, "answer")
    forged(
        journal,
        "INSERT INTO snapshots SELECT s.id, s.version, e.leaf, 'x', x'00' "
        "FROM streams s JOIN events e ON e.position = s.position WHERE s.name = ?",
        f"run/{run}",
    )
    (found,) = await replayed(journal, run)
    assert found.ok


async def test_progress_comes_to_all_records(journal: Path) -> None:
    told: list[tuple[int, int]] = []
    async with aclosing(replay_streams(journal, progress=lambda done, total: told.append((done, total)))) as results:
        async for _ in results:
            pass
    total = described(NAME)["records"]
    assert told[-1] == (total, total)
    assert told == sorted(told)


async def test_leaving_early_ends_the_processes(journal: Path) -> None:
    async with aclosing(replay_streams(journal, jobs=2)) as results:
        async for each in results:
            assert each.ok
            break


async def given(lots: Sequence[Sequence[str]]) -> AsyncGenerator[Sequence[str], None]:
    for lot in lots:
        await trio.lowlevel.checkpoint()
        yield lot


@pytest.mark.parametrize(
    ("arguments", "told"), [(['{"journal": "/no/such/j.db"}'], "cannot be read"), ([], "exit code 1")]
)
async def test_what_a_worker_meets_is_told_as_an_error(arguments: Sequence[str], told: str) -> None:
    lots = given([["run/1"], ["run/2"]] * 4)
    async with aclosing(spread("trouper.audit.replay_worker", arguments, lots, 2)) as answers:
        with pytest.raises(JournalError, match=told):
            await anext(answers)


async def test_answers_that_nobody_takes_hold_no_worker_up(journal: Path) -> None:
    """Far more is asked, and answered, than fits into the pipes between processes."""
    lots = given([[f"run/{'x' * 1000}{number}" for number in range(400)]] * 6)
    with trio.fail_after(60):
        async with aclosing(
            spread("trouper.audit.replay_worker", [json.dumps({"journal": str(journal)})], lots, 2)
        ) as answers:
            assert [len(answer) async for answer in answers] == [400] * 6
