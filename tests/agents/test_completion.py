"""Completion rules: a run succeeds only with evidence, whatever its model claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.agents.office import AnyTool, World, asks, of, office, pending, until
from tests.agents.recipes import SOUP, TYPED, cook

from trouper import (
    Agent,
    DefinitionError,
    Limits,
    Requirement,
    RunIncomplete,
    RunResult,
    ToolError,
    requires_receipt,
    tool,
)
from trouper.core.events import OutputAccepted, OutputRejected
from trouper.core.replay import check
from trouper.testing import Reply, ScriptedModel
from trouper.testing._answers import Answer

ADDED = [requires_receipt("add")]


@tool(effect="idempotent_write")
def boom(n: int) -> str:
    """Fail."""
    raise ToolError(f"no {n}")


def tools(world: World) -> Sequence[AnyTool]:
    return [world.adder(), world.mailer(), boom]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_model_that_claims_to_be_done_without_the_call_does_not_succeed(count: int, tmp_path: Path) -> None:
    async with (
        office(tmp_path, lambda _: Reply("Done."), tools) as desk,
        desk.open(cook(desk, None, completion=[requires_receipt("add", count=count)])) as runtime,
    ):
        run = await runtime.submit("desk", "Add.")
        with pytest.raises(
            RunIncomplete, match=r"3 answers were not accepted: .*add that succeed.*runtime\.resume"
        ) as caught:
            await run.wait()
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert len(desk.stub.requests) == 3
        assert (result.text, result.output, result.usage.input_tokens) == ("Done.", None, 30)
        assert [event.kind for event in await of(run, OutputRejected)] == ["incomplete"] * 3
        said = str(desk.stub.requests[1].messages[-1]["content"])
        assert said.startswith("You are not done yet. Still missing:\n- ")
        assert ("2 calls of add that succeed (so far: 0)" if count == 2 else "a call of add that succeeds") in said


async def test_told_what_is_missing_it_does_it_and_succeeds_also_after_a_restart(tmp_path: Path) -> None:
    script: list[Answer] = ["Done.", "Done!", "Really.", asks(("add", {"n": 1})), "Done now."]
    async with office(tmp_path, script, tools) as desk:
        agent = cook(desk, None, completion=ADDED)
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Add.")
            with pytest.raises(RunIncomplete):
                await run.wait()
        async with desk.open(agent) as runtime:
            await runtime.resume(run.id, by="maria")
            assert (await runtime.run(run.id).wait()).output == "Done now."
            assert desk.world.effects == ["add 1"]


@pytest.mark.parametrize(
    ("rules", "calls", "enough"),
    [
        (ADDED, [("add", {"n": 1})], True),
        (ADDED, [("add", {"n": "x"})], False),
        ([requires_receipt("boom")], [("boom", {"n": 1})], False),
        ([requires_receipt("add", count=2)], [("add", {"n": 1})], False),
        ([requires_receipt("add", count=2)], [("add", {"n": 1}), ("add", {"n": 2})], True),
        ([requires_receipt("boom", "add")], [("add", {"n": 1})], True),
        ([requires_receipt("boom", "add", count=2)], [("add", {"n": 1}), ("boom", {"n": 1})], False),
        ([requires_receipt("boom", "add", count=2)], [("add", {"n": 1}), ("add", {"n": 1})], True),
        ([*ADDED, requires_receipt("boom")], [("add", {"n": 1})], False),
    ],
)
async def test_what_counts_as_evidence(
    rules: list[Requirement], calls: list[tuple[str, dict[str, object]]], enough: bool, tmp_path: Path
) -> None:
    script: list[Answer] = [asks(*calls), *["Done."] * 3]  # type: ignore[arg-type]  # JSON
    async with (
        office(tmp_path, script, tools, done=False) as desk,
        desk.open(cook(desk, None, completion=rules)) as runtime,
    ):
        run = await runtime.submit("desk", "Add.")
        if enough:
            assert (await run.wait()).output == "Done."
        else:
            with pytest.raises(RunIncomplete):
                await run.wait()


async def test_a_doubt_is_no_evidence_until_a_person_has_found_that_it_took_place(tmp_path: Path) -> None:
    @tool
    def pay(n: int) -> str:
        """Pay."""
        raise OSError("line dropped")

    script: list[Answer] = [asks(("pay", {"n": 1})), "Done."]
    async with office(tmp_path, script, [pay]) as desk:
        agent = cook(desk, None, completion=[requires_receipt("pay")])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Pay.")
            state = await until(runtime, run.id, "in_doubt")
            assert state.answer.receipts == {}
            await runtime.resolve(f"{run.id}/0.0", "applied", by="maria", evidence="on the statement")
            assert (await run.wait()).output == "Done."


async def test_a_doubt_that_is_given_up_is_no_evidence(tmp_path: Path) -> None:
    @tool
    def pay(n: int) -> str:
        """Pay."""
        raise OSError("line dropped")

    script: list[Answer] = [asks(("pay", {"n": 1})), *["Done."] * 3]
    async with office(tmp_path, script, [pay]) as desk:
        agent = cook(desk, None, completion=[requires_receipt("pay")])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Pay.")
            await until(runtime, run.id, "in_doubt")
            await runtime.resolve(f"{run.id}/0.0", "abandon", by="maria")
            with pytest.raises(RunIncomplete):
                await run.wait()


async def test_a_denied_call_is_no_evidence_and_an_approved_one_is(tmp_path: Path) -> None:
    mail = asks(("send_email", {"to": "a"}))
    async with office(tmp_path, [mail, "Done.", mail, "Done."], tools) as desk:
        agent = cook(desk, None, completion=[requires_receipt("send_email")])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "Mail.")
            (first,) = await pending(runtime)
            await runtime.deny(first.action, by="maria")
            (second,) = await pending(runtime)
            await runtime.approve(second.action, by="maria")
            assert (await run.wait()).output == "Done."
            assert len(await of(run, OutputRejected)) == 1


async def test_evidence_comes_before_the_form_of_an_output(tmp_path: Path) -> None:
    final = ("final_result", SOUP)
    script: list[Answer] = [asks(final), json.dumps(SOUP), asks(final, ("add", {"n": 1}))]
    async with office(tmp_path, script, tools) as desk, desk.open(cook(desk, completion=ADDED)) as runtime:
        run = await runtime.submit("desk", "Soup!")
        result = await run.wait()
        assert result.output == TYPED
        assert [(event.index, event.kind) for event in await of(run, OutputRejected)] == [
            (0, "incomplete"),
            (1, "incomplete"),
        ]
        assert [event.action for event in await of(run, OutputAccepted)] == ["2.0"]
        assert [message.role for message in result.messages] == [
            "human",
            "ai",
            "tool",
            "ai",
            "human",
            "ai",
            "tool",
            "tool",
        ]


async def test_at_the_limit_the_last_answer_cannot_bring_what_is_missing(tmp_path: Path) -> None:
    async with (
        office(tmp_path, ["Done.", "Done."], tools) as desk,
        desk.open(cook(desk, None, completion=ADDED)) as runtime,
    ):
        run = await runtime.submit("desk", "Add.", limits=Limits(max_steps=1, on_limit="finish"))
        with pytest.raises(RunIncomplete):
            await run.wait()


async def test_what_the_rules_need_is_a_few_numbers_however_many_calls(tmp_path: Path) -> None:
    script: list[Answer] = [*(asks(*[("add", {"n": n}) for n in range(5)]) for _ in range(5)), "Done."]
    async with office(tmp_path, script, tools) as desk, desk.open(cook(desk, None, completion=ADDED)) as runtime:
        run = await runtime.submit("desk", "Add.")
        await run.wait()
        assert (await run.state()).answer.receipts == {"add": 25}
        _, difference = check(run.id, [event for _, event in await run.events()])
        assert difference is None


def test_rules_that_cannot_be_meant_are_refused_when_the_agent_is_built() -> None:
    model = ScriptedModel([])
    with pytest.raises(DefinitionError, match="no tool called 'close_ticket'"):
        Agent("a", model=model, completion=[requires_receipt("close_ticket")])
    with pytest.raises(DefinitionError, match="requires_receipt"):
        Agent("a", model=model, completion=["close_ticket"])  # type: ignore[list-item]  # meant to be wrong
    with pytest.raises(DefinitionError, match="one or more tools"):
        requires_receipt()
    with pytest.raises(DefinitionError, match="count"):
        requires_receipt("add", count=0)
