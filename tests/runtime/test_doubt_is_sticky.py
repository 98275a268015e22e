"""Once an attempt may have taken effect, no later attempt can make it undone by failing: the doubt stays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import attrs
import pytest
import trio
from tests.agents.office import happened, of, until
from tests.runtime.house import House, house

from trouper import (
    Absent,
    Agent,
    DriftPolicy,
    Found,
    Run,
    RunCancelled,
    Runtime,
    RuntimeOptions,
    ToolError,
    ToolMessage,
    TransientError,
    Unsure,
    tool,
)
from trouper.core.events import ActionInterrupted, ActionReceipted, ActionStarted
from trouper.errors import StorageFull
from trouper.testing import ScriptedModel, call, calls
from trouper.tools._options import EffectName

LIMIT = 5.0
QUICK = RuntimeOptions(drain=1)

Fate: TypeAlias = Literal["timeout", "exception", "shutdown", "lost", "transient", "tool_error", "works"]
Query: TypeAlias = Found | Absent | Unsure
CUT_OFF: list[Fate] = ["timeout", "exception", "shutdown", "lost"]
FAILED: list[Fate] = ["transient", "tool_error"]


@attrs.define
class Post:
    """An agent with one tool, and what becomes of each attempt at it; the last fate repeats."""

    place: House
    fates: Sequence[Fate]
    effect: EffectName = "idempotent_write"
    attempts: int = 2
    answer: Query = attrs.Factory(Absent)
    made: int = 0
    began: trio.Event = attrs.Factory(trio.Event)

    def agent(self) -> Agent:
        def ask() -> Query:
            return self.answer

        query = ask if self.effect == "queryable_write" else None
        send = tool(effect=self.effect, attempts=self.attempts, timeout=LIMIT, query=query)(self.send)
        return Agent("desk", tools=[send], model=ScriptedModel([call("send"), "done"], by_turn=True))

    async def send(self) -> str:
        """Send."""
        fate = self.fates[min(self.made, len(self.fates) - 1)]
        self.made += 1
        self.began.set()
        match fate:
            case "timeout" | "shutdown":
                await trio.sleep_forever()
            case "lost":
                # What becomes of this attempt is not written any more: the process ends.
                self.place.store.before_write = disk_full
            case "exception":
                raise OSError("connection reset")
            case "transient":
                raise TransientError("busy")
            case "tool_error":
                raise ToolError("no such address")
            case "works":
                return "sent"
        return "sent, perhaps"


async def disk_full(_: object) -> None:
    raise StorageFull("disk full")


@asynccontextmanager
async def sending(place: House, post: Post) -> AsyncIterator[tuple[Runtime, Run]]:
    """A run whose first attempt has had its fate, in this life of the runtime or in one before."""
    first = post.fates[0]
    restarts = first in {"shutdown", "lost"}
    if restarts:
        async with place.time_passing(), place.open(post.agent(), options=QUICK) as runtime:
            run = await runtime.submit("desk", "Go.")
            await post.began.wait()
            if first == "lost":
                with pytest.raises(StorageFull):
                    await run.wait()
        place.store.before_write = None
    async with place.open(post.agent(), options=QUICK) as runtime:
        run = runtime.run(run.id) if restarts else await runtime.submit("desk", "Go.")
        if first == "timeout":
            await post.began.wait()
            place.clock.advance(LIMIT)
        (interrupted,) = (await happened(runtime, run, ActionInterrupted))[:1]
        assert interrupted.cause == first
        yield runtime, run


def text_of(result: object) -> str:
    (message,) = [each for each in getattr(result, "messages", ()) if isinstance(each, ToolMessage)]
    return str(message.content)


@pytest.mark.parametrize("first", CUT_OFF)
@pytest.mark.parametrize("last", FAILED)
async def test_a_failure_after_an_attempt_that_was_cut_off_leaves_the_doubt(first: Fate, last: Fate) -> None:
    async with house() as place, sending(place, Post(place, [first, last])) as (runtime, run):
        async with place.time_passing():
            (doubt,) = (await until(runtime, run.id, "in_doubt")).in_doubt
        assert doubt.text.startswith("In doubt: an earlier attempt was cut off, and the last one says that it failed")
        assert await of(run, ActionReceipted) == []
        assert [event.cause for event in await of(run, ActionInterrupted)][-1] == last
        await runtime.resolve(f"{run.id}/0.0", "applied", by="maria")
        assert text_of(await run.wait()) == "Took effect, as maria found."


@pytest.mark.parametrize("first", CUT_OFF)
async def test_a_run_cancelled_before_the_next_attempt_ends_in_doubt(first: Fate) -> None:
    async with house() as place, sending(place, Post(place, [first, "transient"], attempts=5)) as (runtime, run):
        await happened(runtime, run, ActionInterrupted, 2)
        await run.cancel(by="maria")
        with pytest.raises(RunCancelled):
            await run.wait()
        result = await run.result()
        assert result.status == "cancelled-in-doubt"
        assert text_of(result).startswith("In doubt: an earlier attempt was cut off")
        assert len(await of(run, ActionStarted)) == 2


@pytest.mark.parametrize("first", CUT_OFF)
async def test_a_later_success_settles_it(first: Fate) -> None:
    async with house() as place, sending(place, Post(place, [first, "transient", "works"], attempts=3)) as (_, run):
        async with place.time_passing():
            assert text_of(await run.wait()) == "sent"
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.outcome, receipt.attempt) == ("ok", 3)


# ---- what leaves no doubt


@pytest.mark.parametrize("last", FAILED)
async def test_failures_alone_are_no_doubt(last: Fate) -> None:
    async with house() as place, sending(place, Post(place, ["transient", last])) as (_, run):
        async with place.time_passing():
            assert text_of(await run.wait()) == (
                "no such address" if last == "tool_error" else "Failed: it failed: busy."
            )
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.outcome, receipt.evidence) == ("error", "tool_error")
        assert (await run.result()).in_doubt == ()


@pytest.mark.parametrize("first", ["shutdown", "lost"])
async def test_a_reader_is_never_in_doubt(first: Fate) -> None:
    async with house() as place, sending(place, Post(place, [first, "tool_error"], "read_only")) as (_, run):
        assert text_of(await run.wait()) == "no such address"
        assert (await run.result()).in_doubt == ()


@pytest.mark.parametrize(
    "answer", [Absent(), Unsure("who knows"), Found("sent before")], ids=lambda a: type(a).__name__
)
@pytest.mark.parametrize("first", CUT_OFF)
async def test_a_query_that_saw_nothing_takes_the_doubt_away_and_only_that(first: Fate, answer: Query) -> None:
    post = Post(place=None, fates=[first, "tool_error"], effect="queryable_write", answer=answer)  # type: ignore[arg-type]  # set below
    async with house() as place:
        post.place = place
        async with sending(place, post) as (runtime, run):
            match answer:
                case Absent():
                    assert text_of(await run.wait()) == "no such address"
                case Found():
                    assert text_of(await run.wait()) == "sent before"
                case Unsure():
                    (doubt,) = (await until(runtime, run.id, "in_doubt")).in_doubt
                    assert "who knows" in doubt.text
                    await runtime.resolve(f"{run.id}/0.0", "not_applied", by="maria")
                    await run.wait()
            assert len(await of(run, ActionStarted)) == (2 if isinstance(answer, Absent) else 1)
            assert len(await of(run, ActionReceipted)) == 1


# ---- attempts that were never made


@pytest.mark.parametrize("doubted", [True, False])
async def test_an_attempt_that_never_began_says_nothing_of_an_earlier_one(*, doubted: bool) -> None:
    """It waits for its turn behind a sibling as the run is cancelled."""
    began = trio.Event()
    ran: list[int] = []

    @tool(effect="idempotent_write", concurrency=1, attempts=5)
    async def send(n: int) -> str:
        """Send; whichever call comes first fails, and the other takes for ever."""
        ran.append(n)
        if len(ran) == 1:
            raise OSError("connection reset") if doubted else TransientError("busy")
        began.set()
        await trio.sleep_forever()
        raise AssertionError

    asked = calls(call("send", n=0), call("send", n=1))
    agent = Agent("desk", tools=[send], model=ScriptedModel([asked, "done"], by_turn=True))
    async with house() as place, place.open(agent) as runtime:
        run = await runtime.submit("desk", "Go.")
        await began.wait()
        await happened(runtime, run, ActionInterrupted)
        place.clock.advance(60)
        await happened(runtime, run, ActionStarted, 3)
        await run.cancel(by="maria")
        with pytest.raises(RunCancelled):
            await run.wait()
        result = await run.result()
        failed, slow = ran
        text = [str(message.content) for message in result.messages if isinstance(message, ToolMessage)][failed]
        assert text.startswith(
            "In doubt: an earlier attempt was cut off, and the next one was not begun"
            if doubted
            else "Did not take effect: it was not begun"
        )
        assert {action.action for action in result.in_doubt} == {f"0.{n}" for n in (ran if doubted else [slow])}


KNOWN: list[tuple[Fate, EffectName]] = [("transient", "idempotent_write"), ("shutdown", "read_only")]
UNKNOWN: list[tuple[Fate, EffectName]] = [("shutdown", "idempotent_write"), ("lost", "idempotent_write")]


@pytest.mark.parametrize(("first", "effect"), [*KNOWN, *UNKNOWN])
async def test_an_attempt_that_cannot_be_made_any_more_adds_no_doubt(first: Fate, effect: EffectName) -> None:
    """The tool is gone as the next attempt is due; what the last one left behind is what remains."""
    async with house() as place:
        post = Post(place, [first], effect, attempts=5)
        async with place.time_passing(), place.open(post.agent(), options=QUICK) as runtime:
            run = await runtime.submit("desk", "Go.")
            await post.began.wait()
        place.store.before_write = None
        bare = Agent("desk", model=ScriptedModel(["never", "done"], by_turn=True))
        async with (
            place.time_passing(),
            place.open(bare, drift=DriftPolicy(contract="adopt", prose="adopt")) as runtime,
        ):
            run = runtime.run(run.id)
            if (first, effect) in UNKNOWN:
                (doubt,) = (await until(runtime, run.id, "in_doubt")).in_doubt
                assert doubt.text.startswith("In doubt: ")
                await runtime.resolve(f"{run.id}/0.0", "not_applied", by="maria")
                await run.wait()
            else:
                assert text_of(await run.wait()).startswith("Failed: ")
                assert (await run.result()).in_doubt == ()
            assert post.made == 1
