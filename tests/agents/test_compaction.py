"""Sessions that are longer than what a model is to be shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from tests.agents.office import Office, Script, asks, happened, of, office, types

from trouper import Agent, DefinitionError, History, Message, ModelError, Price, Run, RunCancelled, Session
from trouper.core.events import ContextCompacted, RunStarted, SessionCompacted, SummaryFailed, SummaryRequested
from trouper.runtime import RuntimeOptions
from trouper.testing import ManualClock, ScriptedModel


def ten(_: Message) -> int:
    return 10


async def talk(session: Session, count: int, start: int = 0) -> list[Run]:
    runs = []
    for number in range(start, start + count):
        run = await session.send(f"q{number}")
        await run.wait()
        runs.append(run)
    return runs


def agent(desk: Office, history: History) -> Agent:
    return Agent("desk", "Talk.", tools=desk.tools, model=desk.model(), history=history)


def shown(desk: Office) -> list[object]:
    return [message["content"] for message in desk.stub.requests[-1].messages[1:]]


def script(count: int) -> list[str]:
    return [f"a{number}" for number in range(count)]


async def test_the_oldest_turns_are_dropped(tmp_path: Path) -> None:
    async with office(tmp_path, script(8), by_turn=False) as desk:
        history = History(60, count=ten)
        async with desk.open(agent(desk, history)) as runtime:
            session = runtime.session("desk", "s")
            runs = await talk(session, 5)
            # 8 messages were there: of those half as many as may be, in whole runs, and never fewer than four.
            assert shown(desk) == ["q2", "a2", "q3", "a3", "q4"]
            (compacted,) = await of(runs[-1], ContextCompacted)
            assert (compacted.summary, compacted.count, compacted.attempt) == (None, 4, 0)
            assert [ref.run for ref in compacted.dropped] == [runs[0].id, runs[1].id]
            assert await types(runs[-1]) == [
                "run.submitted", "run.turn_given", "context.compacted", "run.started",
                "model.requested", "model.responded", "run.succeeded",
            ]  # fmt: skip
            assert len(await session.history()) == 10
            assert len(await session.window()) == 6
            (told,) = [
                event
                async for record in runtime.journal.read("session/s")
                if isinstance(event := runtime.journal.registry.decode(record), SessionCompacted)
            ]
            assert (told.run, told.count, told.summarised) == (runs[-1].id, 4, False)
        async with desk.open(agent(desk, history)) as runtime:
            session = runtime.session("desk", "s")
            (next_one,) = await talk(session, 1, 5)
            assert shown(desk) == ["q2", "a2", "q3", "a3", "q4", "a4", "q5"]
            assert "context.compacted" not in await types(next_one)
            await talk(session, 2, 6)
            assert shown(desk) == ["q4", "a4", "q5", "a5", "q6", "a6", "q7"]


async def test_calls_and_results_stay_together(tmp_path: Path) -> None:
    answers: Script = [asks(*[("add", {"n": place}) for place in range(3)]), asks(("add", {"n": 9})), "done", "bye"]
    async with (
        office(tmp_path, answers, lambda world: [world.adder()], by_turn=False) as desk,
        desk.open(agent(desk, History(50, count=ten, keep_last=2))) as runtime,
    ):
        session = runtime.session("desk", "s")
        await talk(session, 1)
        (run,) = await talk(session, 1, 1)
        assert shown(desk) == [None, "added 9", "done", "q1"]
        assert len(await run.history()) == 5


async def test_a_summary_stands_in_the_place_of_what_is_dropped(tmp_path: Path) -> None:
    summariser = ScriptedModel(["they said hello", "they said hello and more"], name="small")
    async with office(tmp_path, script(10), by_turn=False) as desk:
        history = History(100, count=ten, summarise=summariser)
        options = RuntimeOptions(drain=0.5, prices={"small": Price("small", 1, 2)})
        async with desk.open(agent(desk, history), options=options) as runtime:
            session = runtime.session("desk", "s")
            runs = await talk(session, 7)
            summary = "[Summary of the earlier conversation, which is not shown any more]\nthey said hello"
            assert shown(desk) == [summary, "q4", "a4", "q5", "a5", "q6"]
            (compacted,) = await of(runs[-1], ContextCompacted)
            assert compacted.attempt == 1
            result = await runs[-1].result()
            alone = await runs[-2].result()
            assert result.usage.input_tokens == alone.usage.input_tokens + (compacted.input_tokens or 0)
            spent = (await runs[-1].state()).spent
            assert (spent.model_calls, spent.cost, spent.unpriced) == (2, compacted.cost, 1)
            assert compacted.cost == 1 * (compacted.input_tokens or 0) + 2 * (compacted.output_tokens or 0)
            asked = summariser.requests[0].messages
            assert [message.role for message in asked] == ["system", "human"]
            assert "q3" in str(asked[1].content)
            assert "q4" not in str(asked[1].content)
        async with desk.open(agent(desk, history)) as runtime:
            session = runtime.session("desk", "s")
            await talk(session, 3, 7)
            assert shown(desk)[0] == f"{summary} and more"
            # An earlier summary is part of what is summarised.
            assert "they said hello" in str(summariser.requests[1].messages[1].content)
            first = (await session.window())[0]
            assert first.content == f"{summary} and more"
    summariser.assert_done()


async def test_a_summary_that_cannot_be_had_is_done_without(tmp_path: Path) -> None:
    broken = ScriptedModel([ModelError("no"), ModelError("still no")], name="small")
    clock = ManualClock()
    async with (
        office(tmp_path, script(5), by_turn=False, clock=clock) as desk,
        desk.open(agent(desk, History(60, count=ten, summarise=broken))) as runtime,
    ):
        session = runtime.session("desk", "s")
        await talk(session, 4)
        run = await session.send("q4")
        await happened(runtime, run, SummaryFailed)
        clock.advance(60)
        await run.wait()
        (compacted,) = await of(run, ContextCompacted)
        assert (compacted.summary, compacted.reason) == (None, "ModelError: still no")
        assert shown(desk) == ["q2", "a2", "q3", "a3", "q4"]


async def hang(_: object) -> str:
    await trio.sleep_forever()
    raise AssertionError


async def test_a_summary_lost_with_the_runtime_is_asked_for_once_more(tmp_path: Path) -> None:
    async with office(tmp_path, script(5), by_turn=False) as desk:
        hanging = ScriptedModel([hang], name="small")
        async with desk.open(agent(desk, History(60, count=ten, summarise=hanging))) as runtime:
            session = runtime.session("desk", "s")
            await talk(session, 4)
            run_id = (await session.send("q4")).id
            await happened(runtime, runtime.run(run_id), SummaryRequested)
        working = ScriptedModel(["all of it"], name="small")
        async with desk.open(agent(desk, History(60, count=ten, summarise=working))) as runtime:
            run = runtime.run(run_id)
            await run.wait()
            assert [event.attempt for event in await of(run, SummaryRequested)] == [1, 2]
            assert [event.reason for event in await of(run, SummaryFailed)] == ["shutdown"]
            (compacted,) = await of(run, ContextCompacted)
            assert (compacted.summary, compacted.attempt) == ("all of it", 2)
            assert (await run.result()).usage.unknown >= 1


async def test_a_turn_can_be_cancelled_while_its_summary_is_waited_for(tmp_path: Path) -> None:
    async with office(tmp_path, script(5), by_turn=False) as desk:
        hanging = ScriptedModel([hang, "short"], name="small")
        async with desk.open(agent(desk, History(60, count=ten, summarise=hanging))) as runtime:
            session = runtime.session("desk", "s")
            await talk(session, 4)
            run = await session.send("q4")
            await happened(runtime, run, SummaryRequested)
            await run.cancel(by="maria")
            with pytest.raises(RunCancelled):
                await run.wait()
            # It was never taken up: nothing of it is handed on, and the next turn is shortened in its place.
            (after,) = await talk(session, 1, 5)
            assert shown(desk)[1:] == ["q2", "a2", "q3", "a3", "q5"]
            assert len(await of(after, RunStarted)) == 1


async def test_the_definition_names_the_history_only_where_there_is_one(tmp_path: Path) -> None:
    async with office(tmp_path, []) as desk:
        plain, limited = desk.agent(), agent(desk, History(60))
        assert "history" not in plain.definition.prose
        assert limited.definition.prose["history"] == {"max_tokens": 60, "keep_last": 4}
        assert "history" not in limited.definition.contract


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5, "keep_last": -1}, "keep_last"),
        ({"max_tokens": 5, "summarise": "gpt"}, "summarise"),
        ({"max_tokens": 5, "count": 4}, "count"),
    ],
)
def test_a_history_that_cannot_be_meant_is_refused(given: dict[str, object], place: str) -> None:
    with pytest.raises(DefinitionError, match=place):
        History(**given)  # type: ignore[arg-type]  # wrong on purpose


async def test_a_session_without_limits_is_handed_on_whole(tmp_path: Path) -> None:
    async with office(tmp_path, script(12), by_turn=False) as desk, desk.open() as opened:
        await talk(opened.session("desk", "s"), 12)
        assert len(shown(desk)) == 23
