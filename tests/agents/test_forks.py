"""What-if: a fork begins anywhere, with anything changed; it leaves the other run alone and does nothing unasked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.office import Office, asks, of, office, pending

from trouper import (
    AI,
    Agent,
    EditArguments,
    EditMessage,
    EditReceipt,
    ForkError,
    Human,
    IdempotencyConflict,
    Run,
    RunResult,
    Runtime,
    ToolMessage,
    UnknownAgent,
    UnknownRun,
    WhatIf,
    tool,
)
from trouper.core.conversation import Message, ToolCall
from trouper.core.events import ActionPlanned, ActionReceipted, ActionStarted, ModelResponded
from trouper.core.fork import Edit, Fork, cut_history
from trouper.testing import Reply, ScriptedModel, Step, call


@tool(effect="read_only")
def lookup(ticket: str) -> str:
    """Read a ticket."""
    return f"{ticket} is open"


ORIGIN: list[Reply | str] = [asks(("lookup", {"ticket": "A"})), asks(("add", {"n": 1})), "Closed A."]


async def first(desk: Office, runtime: Runtime) -> tuple[Run, RunResult, list[object]]:
    run = await runtime.submit("desk", "Close A.")
    result = await run.wait()
    assert desk.world.effects == ["add 1"]
    return run, result, [event for _, event in await run.events()]


async def test_a_fork_answers_alike_calls_from_the_record_and_leaves_the_other_run_alone(tmp_path: Path) -> None:
    again: list[Reply | str] = [asks(("lookup", {"ticket": "A"})), asks(("add", {"n": 1})), "Closed A, differently."]
    async with (
        office(tmp_path, [*ORIGIN, *again], lambda w: [lookup, w.adder()], by_turn=False) as desk,
        desk.open() as runtime,
    ):
        run, result, events = await first(desk, runtime)
        fork = await run.fork(WhatIf([EditMessage(f"{run.id}/input", "Close A, please.")]))
        forked = await fork.wait()
        assert forked.output == "Closed A, differently."
        assert desk.world.effects == ["add 1"]
        assert [event for _, event in await run.events()] == events
        assert [event.recorded for event in await of(fork, ActionPlanned)] == [f"{run.id}/0.0", f"{run.id}/1.0"]
        assert [event.evidence for event in await of(fork, ActionReceipted)] == ["recorded", "recorded"]
        assert await of(fork, ActionStarted) == []
        told = [message.content for message in forked.messages if isinstance(message, ToolMessage)]
        assert told == [message.content for message in result.messages if isinstance(message, ToolMessage)]
        state = await fork.state()
        assert state.forked is not None
        assert state.forked.of == Fork(run.id, len(events))


async def test_each_receipt_answers_one_call(tmp_path: Path) -> None:
    again: list[Reply | str] = [asks(("add", {"n": 1}), ("add", {"n": 1})), "Twice."]
    async with (
        office(tmp_path, [*ORIGIN, *again], lambda w: [lookup, w.adder()], by_turn=False) as desk,
        desk.open() as runtime,
    ):
        run, _, _ = await first(desk, runtime)
        fork = await run.fork(WhatIf([EditMessage(f"{run.id}/input", "Twice.")]))
        result = await fork.wait()
        told = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert [message.status for message in told] == ["ok", "error"]
        assert "what-if" in str(told[1].content)
        assert desk.world.effects == ["add 1"]


async def test_new_writes_are_blocked_simulated_or_wait_for_a_person(tmp_path: Path) -> None:
    again: list[Reply | str] = [asks(("add", {"n": 2})), "Done."]
    async with (
        office(tmp_path, [*ORIGIN, *again, *again, *again], lambda w: [lookup, w.adder()], by_turn=False) as desk,
        desk.open() as runtime,
    ):
        run, _, _ = await first(desk, runtime)
        edits = [EditMessage(f"{run.id}/input", "Add two.")]

        blocked = await (await run.fork(WhatIf(edits, writes="block"))).wait()
        (answer,) = [message for message in blocked.messages if isinstance(message, ToolMessage)]
        assert (answer.status, desk.world.effects) == ("error", ["add 1"])

        simulated = await (await run.fork(WhatIf(edits, writes="simulate"))).wait()
        (answer,) = [message for message in simulated.messages if isinstance(message, ToolMessage)]
        assert answer.status == "ok"
        assert str(answer.content).startswith("Simulated")
        assert desk.world.effects == ["add 1"]

        asking = await run.fork(WhatIf(edits, writes="ask"))
        (wish,) = await pending(runtime)
        assert (wish.run, wish.arguments) == (asking.id, {"n": 2})
        await runtime.approve(wish.action, by="maria")
        await asking.wait()
        assert desk.world.effects == ["add 1", "add 2"]


async def test_an_edited_argument_runs_under_an_id_of_the_forks_own(tmp_path: Path) -> None:
    async with (
        office(tmp_path, [*ORIGIN, "B it is."], lambda w: [lookup, w.adder()], by_turn=False) as desk,
        desk.open() as runtime,
    ):
        run, _, _ = await first(desk, runtime)
        fork = await run.fork(WhatIf([EditArguments("0.0", {"ticket": "B"})]))
        result = await fork.wait()
        assert result.output == "B it is."
        answers = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert [(answer.call_id, answer.content) for answer in answers] == [(f"{fork.id}/0.0", "B is open")]
        assert await fork.history() == (Human(f"{run.id}/input", "Close A."), *result.messages)
        assert [request.index for request in await of(fork, ModelResponded)] == [1]


async def test_an_edited_receipt_is_what_the_model_is_told(tmp_path: Path) -> None:
    async with (
        office(tmp_path, [*ORIGIN, "It is closed already."], lambda w: [lookup, w.adder()], by_turn=False) as desk,
        desk.open() as runtime,
    ):
        run, _, _ = await first(desk, runtime)
        fork = await run.fork(WhatIf([EditReceipt("0.0", "A is closed")]))
        assert (await fork.wait()).output == "It is closed already."
        sent = desk.stub.requests[-1].messages
        assert [message["content"] for message in sent if message["role"] == "tool"] == ["A is closed"]


async def test_from_any_version_calls_that_were_open_are_made_again(tmp_path: Path) -> None:
    script = [*ORIGIN, *["End."] * 20]
    async with (
        office(tmp_path, script, lambda w: [lookup, w.adder()], by_turn=False, done=False) as desk,
        desk.open() as runtime,
    ):
        run, _, events = await first(desk, runtime)
        for version in range(1, len(events) + 1):
            fork = await run.fork(WhatIf(at=version))
            result = await fork.wait()
            assert result.output == "End."
            assert desk.world.effects == ["add 1"]
            history = await fork.history()
            assert history[0] == Human(f"{run.id}/input", "Close A.")
            assert len({message.id for message in history}) == len(history)


async def test_another_agent_takes_the_history_up(tmp_path: Path) -> None:
    plain = Agent("plain", "Be short.", tools=[lookup], model=ScriptedModel([call("lookup", ticket="A"), "Long."]))
    other = Agent("other", "Be long.", model=ScriptedModel(["Very long."]), tools=[lookup])
    async with Runtime.open(tmp_path / "a.db", [plain, other]) as runtime:
        run = await runtime.submit("plain", "What is A?")
        await run.wait()
        fork = await run.fork(WhatIf(agent="other"), by="maria")
        assert (await fork.wait()).output == "Very long."
        assert len(await fork.history()) == 4
        with pytest.raises(UnknownAgent):
            await run.fork(WhatIf(agent="nobody"))


async def test_a_fork_survives_a_restart_and_a_repeated_command_is_one_fork(tmp_path: Path) -> None:
    async with office(
        tmp_path,
        [*ORIGIN, asks(("send_email", {"to": "b"})), "Sent."],
        lambda w: [lookup, w.adder(), w.mailer(requires_approval=False)],
        by_turn=False,
    ) as desk:
        async with desk.open() as runtime:
            run, _, _ = await first(desk, runtime)
            what_if = WhatIf([EditMessage(f"{run.id}/input", "Write to b.")], writes="ask")
            fork = await run.fork(what_if, command_id="what-if-1")
            (wish,) = await pending(runtime)
        async with desk.commands() as commands:
            repeated = await commands.fork(run.id, what_if, command_id="what-if-1")
            assert (repeated.run, repeated.repeated) == (fork.id, True)
            with pytest.raises(IdempotencyConflict):
                await commands.fork(run.id, WhatIf(say="else"), command_id="what-if-1")
        async with desk.open() as runtime:
            await runtime.approve(wish.action, by="maria")
            assert (await runtime.run(fork.id).wait()).output == "Sent."
        assert desk.world.effects == ["add 1", "mail b"]


async def test_the_parts_of_a_tree_are_contained_too(tmp_path: Path) -> None:
    effects: list[str] = []

    @tool(effect="unqueryable_write")
    def strike(what: str) -> str:
        """Strike."""
        effects.append(what)
        return "struck"

    helper = Agent(
        "helper", tools=[strike], model=ScriptedModel([call("strike", what="a"), "ok", call("strike", what="b"), "no"])
    )
    boss = Agent(
        "boss",
        tools=[helper.as_tool()],
        model=ScriptedModel([call("helper", input="strike a"), "done", call("helper", input="strike b"), "tried"]),
    )
    async with Runtime.open(tmp_path / "a.db", [boss]) as runtime:
        run = await runtime.submit("boss", "Go.")
        await run.wait()
        assert effects == ["a"]
        fork = await run.fork(WhatIf([EditMessage(f"{run.id}/input", "Go on.")]))
        assert (await fork.wait()).output == "tried"
        assert effects == ["a"]


async def test_from_any_version_of_a_tree_its_parts_are_contained(tmp_path: Path) -> None:
    effects: list[str] = []

    @tool(effect="unqueryable_write")
    def strike(what: str) -> str:
        """Strike."""
        effects.append(what)
        return "struck"

    def script(*steps: Step) -> ScriptedModel:
        return ScriptedModel(steps, by_turn=True)

    helper = Agent("helper", tools=[strike], model=script(call("strike", what="a"), "ok"))
    boss = Agent("boss", tools=[helper.as_tool()], model=script(call("helper", input="strike a"), "done"))
    async with Runtime.open(tmp_path / "a.db", [boss]) as runtime:
        run = await runtime.submit("boss", "Go.")
        await run.wait()
        streams = (run.id, f"{run.id}~0.0")
        before = [await runtime.run(name).events() for name in streams]
        for version in range(1, len(before[0]) + 1):
            for writes in ("block", "simulate"):
                fork = await run.fork(WhatIf(at=version, writes=writes))
                assert (await fork.wait()).output == "done"
                assert effects == ["a"]
        assert [await runtime.run(name).events() for name in streams] == before


async def test_what_cannot_be_forked_is_told_by_name(tmp_path: Path) -> None:
    async with Runtime.open(tmp_path / "a.db", [Agent("desk", model=ScriptedModel(["Hi."]))]) as runtime:
        run = await runtime.submit("desk", "Go.")
        await run.wait()
        with pytest.raises(UnknownRun):
            await runtime.run("nobody").fork(WhatIf())
        with pytest.raises(UnknownRun, match="events"):
            await run.fork(WhatIf(at=99))
        with pytest.raises(ForkError, match="no message"):
            await run.fork(WhatIf([EditMessage("nowhere", "x")]))
        with pytest.raises(ForkError, match=r"no call 7\.0"):
            await run.fork(WhatIf([EditArguments("7.0", {})]))
        with pytest.raises(ForkError, match="block"):
            WhatIf(writes="allow")  # type: ignore[arg-type]
        with pytest.raises(ForkError, match="no edit"):
            WhatIf(["x"])  # type: ignore[list-item]


# ---- the cut, for any history


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Turns as a run has them: what is asked, replies with calls and all their answers, a final reply."""
    history: list[Message] = [Human("r/input", "Go.")]
    for turn in range(draw(st.integers(0, 4))):
        asked = [ToolCall(f"r/{turn}.{place}", "t", "{}") for place in range(draw(st.integers(1, 3)))]
        history.append(AI(f"r/{turn}", None, asked))
        history += [ToolMessage(each.id, each.id, "t", "ok") for each in asked]
    if draw(st.booleans()):
        history.append(AI("r/9", "End."))
    return history


def edits_of(history: Sequence[Message]) -> st.SearchStrategy[Edit]:
    ids = [message.id for message in history]
    asked = [message.call_id for message in history if isinstance(message, ToolMessage)]
    kinds: list[st.SearchStrategy[Edit]] = [st.builds(EditMessage, st.sampled_from(ids), st.just("other"))]
    if asked:
        kinds.append(st.builds(EditArguments, st.sampled_from(asked), st.just({"n": 1})))
        kinds.append(st.builds(EditReceipt, st.sampled_from(asked), st.just("other")))
    return st.one_of(kinds)


@given(st.data())
def test_however_it_is_cut_what_is_left_is_valid_for_the_wire(data: st.DataObject) -> None:
    history = data.draw(histories())
    edit = data.draw(edits_of(history))
    if isinstance(edit, EditMessage) and edit.id == "r/9":
        with pytest.raises(ForkError, match="asked for anew"):
            cut_history("r", history, WhatIf([edit]), open_from=None)
        return
    cut = cut_history("r", history, WhatIf([edit]), open_from=None)
    made = [*history[: cut.kept], *cut.rest]
    waiting: list[str] = []
    for message in made:
        if isinstance(message, ToolMessage):
            assert message.call_id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [asked.id for asked in message.tool_calls] if isinstance(message, AI) else []
    assert bool(waiting) is cut.again
    if not cut.again:
        assert not isinstance(made[-1], AI) or isinstance(edit, EditMessage)
