"""Opening and leaving a runtime: whose errors come out, and how."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from trouper import Agent, DefinitionError, JournalInUse, Runtime, RuntimeStopped, UnknownAgent, UnknownRun, tool
from trouper.core.conversation import AI
from trouper.core.exchange import ModelReply
from trouper.testing import ScriptedModel, call


class Closable(ScriptedModel):
    """A model that keeps a connection."""

    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def one_reply() -> Agent:
    return Agent("desk", model=ScriptedModel(["Done."], by_turn=True))


async def test_an_error_of_the_block_leaves_as_it_is(tmp_path: Path) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with Runtime.open(tmp_path / "a.db", [one_reply()]):
            raise error
    assert caught.value is error


async def test_a_cancelled_block_is_caught_by_the_scope_that_cancelled_it(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with Runtime.open(tmp_path / "a.db", [one_reply()]):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_second_runtime_is_told_who_holds_the_journal(tmp_path: Path) -> None:
    async with Runtime.open(tmp_path / "a.db", [one_reply()]):
        with pytest.raises(JournalInUse, match="process"):
            async with Runtime.open(tmp_path / "a.db", [one_reply()]):
                pass
    async with Runtime.open(tmp_path / "a.db", [one_reply()]) as runtime:
        assert runtime.active == 0


async def test_a_model_is_closed_with_the_runtime_and_opened_again_with_the_next(tmp_path: Path) -> None:
    model = Closable(["Done."], by_turn=True)
    for _ in range(2):
        async with Runtime.open(tmp_path / "a.db", [Agent("desk", model=model)]) as runtime:
            await (await runtime.submit("desk", "Hello")).wait()
    assert model.closed == 2


async def test_two_agents_of_one_name_are_refused_before_the_journal_is_touched(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="desk"):
        async with Runtime.open(tmp_path / "a.db", [one_reply(), one_reply()]):
            pass
    assert not (tmp_path / "a.db").exists()


def test_another_event_loop_is_refused_in_words(tmp_path: Path) -> None:
    async def main() -> None:
        async with Runtime.open(tmp_path / "a.db", [one_reply()]):
            pass

    with pytest.raises(RuntimeError, match=r"trio\.run"):
        main().send(None)  # as any other loop would begin it
    assert not (tmp_path / "a.db").exists()


async def test_an_agent_in_the_place_of_another_thing_is_told_what_to_write(tmp_path: Path) -> None:
    desk = one_reply()
    with pytest.raises(DefinitionError, match=r"give a sequence, such as \[desk\]"):
        async with Runtime.open(tmp_path / "a.db", desk):  # type: ignore[arg-type]  # what is tested
            pass
    async with Runtime.open(tmp_path / "a.db", [desk]) as runtime:
        with pytest.raises(UnknownAgent, match="asked by name: give 'desk'"):
            await runtime.submit(desk, "Hello")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(DefinitionError, match=r"give desk\.as_tool\(\)"):
        Agent("boss", tools=[desk], model=desk.model)  # type: ignore[list-item]  # what is tested
    with pytest.raises(DefinitionError, match="'gpt' is not a model"):
        Agent("boss", model="gpt")  # type: ignore[arg-type]  # what is tested


async def test_unknown_agents_and_runs_are_named(tmp_path: Path) -> None:
    async with Runtime.open(tmp_path / "a.db", [one_reply()]) as runtime:
        with pytest.raises(UnknownAgent, match=r"clerk.*desk"):
            await runtime.submit("clerk", "Hello")
        with pytest.raises(UnknownRun, match="01NOPE"):
            await runtime.run("01NOPE").wait()


async def test_waiting_ends_with_the_runtime_and_the_run_goes_on_at_the_next_start(tmp_path: Path) -> None:
    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent("desk", tools=[pay], model=ScriptedModel([call("pay"), "Paid."], by_turn=True))
    ended: list[str] = []

    async def wait(runtime: Runtime, run: str) -> None:
        try:
            await runtime.run(run).wait()
        except RuntimeStopped as error:
            ended.append(str(error))

    async with (
        trio.open_nursery() as nursery,
        Runtime.open(tmp_path / "a.db", [agent]) as runtime,
        runtime.journal.news() as news,
    ):
        run = await runtime.submit("desk", "Pay")
        nursery.start_soon(wait, runtime, run.id)
        while not await runtime.approvals():
            await news.wait()
    assert len(ended) == 1
    assert run.id in ended[0]
    async with Runtime.open(tmp_path / "a.db", [agent]) as runtime:
        (pending,) = await runtime.approvals()
        await runtime.approve(pending.action, by="maria")
        assert (await runtime.run(run.id).wait()).output == "Paid."


class Huge:
    """A model whose first reply is larger than a journal takes."""

    name = "huge"

    async def agenerate(self, *_: object) -> ModelReply:
        await trio.lowlevel.checkpoint()
        return ModelReply(AI("", content="x" * (65 << 20)), "stop")


async def test_a_reply_that_cannot_be_journaled_fails_its_run_and_no_other(tmp_path: Path) -> None:
    from trouper import RunFailed

    agents = [Agent("huge", model=Huge()), one_reply()]
    async with Runtime.open(tmp_path / "a.db", agents) as runtime:
        with pytest.raises(RunFailed, match="cannot be journaled"):
            await (await runtime.submit("huge", "Say much")).wait()
        assert (await (await runtime.submit("desk", "Hello")).wait()).output == "Done."
