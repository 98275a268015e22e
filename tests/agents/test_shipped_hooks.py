"""The hooks that come with the library."""

from __future__ import annotations

import json
import re
from pathlib import Path

import attrs
import pytest
from tests.agents.office import asks, of, office, told

from trouper import AI, Human, Limits, Price, RuntimeOptions, System, ToolCall, ToolMessage, tool
from trouper.core.conversation import Usage
from trouper.core.events import HookApplied, ModelRequested
from trouper.core.state import known
from trouper.errors import DefinitionError, ModelError, RunFailed
from trouper.hooks import Hook, ModelFallback, Redact, Summarise, ToolCallLimit, TrimContext, View
from trouper.hooks._groups import droppable
from trouper.testing import Reply, ScriptedModel, call
from trouper.testing._answers import Answer


async def test_a_tool_is_called_so_many_times_and_no_more(tmp_path: Path) -> None:
    script: list[Answer] = [
        asks(("add", {"n": 1}), ("write_file", {"path": "a"})),
        asks(("add", {"n": 2}), ("add", {"n": 3})),
        asks(("add", {"n": 4})),
        "done",
    ]
    async with (
        office(tmp_path, script, lambda world: [world.adder(), world.writer()]) as desk,
        desk.open(attrs.evolve(desk.agent(), hooks=[ToolCallLimit("add", 2)])) as runtime,
    ):
        await (await runtime.submit("desk", "go")).wait()
        assert sorted(desk.world.effects) == ["add 1", "add 2", "write a "]
        answers = told(desk.stub.requests[-1].messages)
        assert answers[2:] == [
            "added 2",
            "Not started: the limit of 2 calls of add is reached. Go on without it.",
            "Not started: the limit of 2 calls of add is reached. Go on without it.",
        ]


async def test_a_limit_of_calls_can_fail_the_run(tmp_path: Path) -> None:
    async with (
        office(tmp_path, [asks(("add", {"n": 1}), ("add", {"n": 2}))], lambda world: [world.adder()]) as desk,
        desk.open(attrs.evolve(desk.agent(), hooks=[ToolCallLimit(None, 1, fail=True)])) as runtime,
    ):
        run = await runtime.submit("desk", "go")
        with pytest.raises(RunFailed, match="the limit of 1 calls is reached"):
            await run.wait()


async def test_another_model_answers_where_one_fails_and_the_reason_is_journaled(tmp_path: Path) -> None:
    second = ScriptedModel([ModelError("broken")], name="second")
    third = ScriptedModel([call("add", n=1)], name="third:7b")
    down = ScriptedModel([ModelError("busy", status=503, retryable=True), "later"], name="down")
    async with office(tmp_path, [], lambda world: [world.adder()]) as desk:
        agent = attrs.evolve(desk.agent(), model=down, hooks=[ModelFallback([second, third])])
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            # For the next call the agent's own model is asked again.
            assert (await run.wait()).output == "later"
            assert [event.model for event in await of(run, ModelRequested)] == ["", "second", "third:7b", ""]
            said = [op for event in await of(run, HookApplied) for done in known(event.done, ()) for op in done.ops]
            assert [getattr(op, "reason", None) for op in said] == [
                "the own model failed: busy",
                "second failed: broken",
            ]


async def test_when_every_model_has_failed_the_runs_own_rules_hold(tmp_path: Path) -> None:
    busy = ScriptedModel([ModelError("busy", retryable=True)] * 2, name="busy")
    slow = ScriptedModel([ModelError("busy too", retryable=True, retry_after=0)] * 2, name="slow")
    async with office(tmp_path, []) as desk:
        agent = attrs.evolve(
            desk.agent(limits=Limits(model_attempts=2)), model=busy, hooks=[ModelFallback([slow], on="final")]
        )
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            with pytest.raises(RunFailed, match="busy too"):
                await run.wait()
            assert [event.model for event in await of(run, ModelRequested)] == ["", "", "slow", "slow"]


@tool(effect="read_only")
def card() -> str:
    """Read a card."""
    return "card 4111-1111-1111-1111"


CARD = r"\d{4}-\d{4}-\d{4}-\d{4}"


async def test_patterns_are_masked_in_all_that_the_model_is_shown(tmp_path: Path) -> None:
    script: list[Answer] = [
        Reply("I have 4111-1111-1111-1112", calls=asks(("note", {"text": "4111-1111-1111-1113", "n": 5})).calls),
        "4111-1111-1111-1114",
    ]

    @tool(effect="read_only")
    def note(text: str, n: int) -> str:
        """Note."""
        return f"noted {text}"

    async with office(tmp_path, script, [note]) as desk:
        async with desk.open(attrs.evolve(desk.agent(), hooks=[Redact([CARD])])) as runtime:
            run = await runtime.submit("desk", "my card is 4111-1111-1111-1111")
            result = await run.wait()
            # The tool got the real one, and the record has it.
            assert result.messages[2].content == "noted 4111-1111-1111-1113"
            assert result.output == "4111-1111-1111-1114"
        shown = desk.stub.requests[-1].messages
        assert re.search(CARD, json.dumps(shown)) is None
        assert "[redacted]" in str(shown[2]["tool_calls"])
        assert told(shown) == ["noted [redacted]"]


async def test_arguments_are_masked_however_they_are_spelled() -> None:
    hidden = AI("a", None, tool_calls=(ToolCall("a/0", "note", r'{"text": "4111-1111\u002d1111-1113"}'),))
    as_is = AI("b", None, tool_calls=(ToolCall("b/0", "note", r'{"text":  "plain\u0020text"}'),))
    view = View("r", "desk", 0, (hidden, as_is), {}, 0, Usage(), {})
    (replaced,) = await Redact([CARD]).before_model(view)
    assert isinstance(replaced.message, AI)
    assert json.loads(replaced.message.tool_calls[0].arguments) == {"text": "[redacted]"}


async def test_results_can_be_masked_before_they_become_part_of_the_conversation(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("card", {})), "done"], [card]) as desk:
        hook = Redact([re.compile("CARD", re.IGNORECASE), CARD], "x", results=True)
        async with desk.open(attrs.evolve(desk.agent(), hooks=[hook])) as runtime:
            result = await (await runtime.submit("desk", "go")).wait()
            assert result.messages[2].content == "x x"


def history(steps: int) -> list[System | Human | AI | ToolMessage]:
    messages: list[System | Human | AI | ToolMessage] = [System("s", "be brief"), Human("h", "the task")]
    for step in range(steps):
        asked = call("add", n=step)
        asked = attrs.evolve(asked, id=f"a{step}", tool_calls=(attrs.evolve(asked.tool_calls[0], id=f"c{step}"),))
        messages += [asked, ToolMessage(f"t{step}", f"c{step}", "add", f"added {step}")]
    return messages


def test_what_may_be_left_out_never_parts_a_call_from_its_answer() -> None:
    kept = droppable(history(3))
    assert [[message.id for message in group] for group in kept] == [["a0", "t0"], ["a1", "t1"]]


async def test_old_messages_are_left_out_and_every_history_stays_valid(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": n}), ("add", {"n": n + 100})) for n in range(6)]
    async with office(tmp_path, [*script, "done"], lambda world: [world.adder()], by_turn=False) as desk:
        async with desk.open(attrs.evolve(desk.agent(), hooks=[TrimContext(max_messages=5)])) as runtime:
            run = await runtime.submit("desk", "the task")
            result = await run.wait()
            assert len(result.messages) == 1 + 6 * 3 + 1
            ops = (await run.state()).hooks.ops
            dropped = [one for op in ops for one in getattr(op, "ids", ())]
            assert len(dropped) == len(set(dropped)) == 15
        # The strict server has refused nothing; the task was always shown.
        for request in desk.stub.requests:
            shown = [message for message in request.messages if message["role"] != "system"]
            assert len(shown) <= 5
            assert shown[0] == {"role": "user", "content": "the task"}


async def test_a_limit_of_tokens_is_held_by_estimate(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": n})) for n in range(6)]
    async with office(tmp_path, [*script, "done"], lambda world: [world.adder()], by_turn=False) as desk:
        hook = TrimContext(30, count=lambda message: 10)
        async with desk.open(attrs.evolve(desk.agent(), hooks=[hook])) as runtime:
            await (await runtime.submit("desk", "the task")).wait()
        assert [len(request.messages) - 1 for request in desk.stub.requests] == [1, 3, 3, 3, 3, 3, 3]


async def test_old_messages_are_summed_up_and_the_tokens_count(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": n})) for n in range(4)]
    scribe = ScriptedModel(["first summary", "second summary"], name="scribe", usage=Usage(7, 3))
    async with office(tmp_path, [*script, "done"], lambda world: [world.adder()], by_turn=False) as desk:
        hook = Summarise(scribe, above=50, keep=2, count=lambda message: 10)
        prices = {"scribe": Price("scribe 1", 2, 3), "m": Price("m 1", 1, 1)}
        options = RuntimeOptions(prices=prices)
        async with desk.open(attrs.evolve(desk.agent(), hooks=[hook]), options=options) as runtime:
            run = await runtime.submit("desk", "the task")
            result = await run.wait()
            assert len(result.messages) == 10
            spent = result.spent
            assert (spent.model_calls, spent.unpriced) == (5 + len(scribe.requests), 0)
            assert spent.cost == 5 * (10 + 5) + len(scribe.requests) * (7 * 2 + 3 * 3)
            assert result.usage.input_tokens == 5 * 10 + len(scribe.requests) * 7
            assert result.usage.output_tokens == 5 * 5 + len(scribe.requests) * 3
        assert len(scribe.requests) == 2
        last = desk.stub.requests[-1].messages
        assert [message["role"] for message in last] == ["system", "user", "user", "assistant", "tool"]
        assert last[1]["content"] == "the task"
        assert "second summary" in str(last[2]["content"])
        assert "first summary" in str(scribe.requests[1].messages[1].content)
        assert "the task" not in str(scribe.requests[1].messages[1].content)


async def test_a_summary_that_cannot_be_had_is_done_without_and_counts_as_unknown(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("add", {"n": n})) for n in range(2)]
    scribe = ScriptedModel([ModelError("down")], name="scribe")
    async with office(tmp_path, [*script, "done"], lambda world: [world.adder()], by_turn=False) as desk:
        hook = Summarise(scribe, above=30, keep=1, count=lambda message: 10)
        async with desk.open(attrs.evolve(desk.agent(), hooks=[hook])) as runtime:
            result = await (await runtime.submit("desk", "the task")).wait()
            assert result.usage.unknown == 1
        assert len(desk.stub.requests[-1].messages) == 6


async def test_shipped_hooks_compose_in_order(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("card", {})) for _ in range(4)]
    seen: list[View] = []

    class Look(Hook):
        async def before_model(self, view: View) -> None:
            seen.append(view)

    async with office(tmp_path, [*script, "done"], [card], by_turn=False) as desk:
        hooks = [TrimContext(max_messages=3), Redact([CARD]), ToolCallLimit("card", 3), Look()]
        async with desk.open(attrs.evolve(desk.agent(), hooks=hooks)) as runtime:
            await (await runtime.submit("desk", "go")).wait()
        assert all(len(view.messages) <= 3 for view in seen)
        assert all("4111" not in str(view.messages) for view in seen)
        assert all(json.dumps(request.messages).count("4111") == 0 for request in desk.stub.requests)
        assert "limit of 3" in str(told(desk.stub.requests[-1].messages)[-1])


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolCallLimit("a", 0),
        lambda: ModelFallback([object()]),  # type: ignore[list-item]
        lambda: ModelFallback([ScriptedModel([]), ScriptedModel([])]),
        lambda: ModelFallback([], on="sometimes"),  # type: ignore[arg-type]
        lambda: Redact("abc"),
        lambda: Redact(["("]),
        TrimContext,
        lambda: TrimContext(0),
        lambda: Summarise(ScriptedModel([]), above=0),
        lambda: Summarise(object(), above=1),  # type: ignore[arg-type]
    ],
)
def test_settings_that_cannot_be_meant_are_refused_at_once(make: object) -> None:
    assert callable(make)
    with pytest.raises(DefinitionError, match=r"ToolCallLimit|ModelFallback|Redact|TrimContext|Summarise"):
        make()


async def test_what_a_run_starts_from_is_shown_and_trimmed_like_its_own(tmp_path: Path) -> None:
    seen: list[View] = []

    class Look(Hook):
        async def before_model(self, view: View) -> None:
            seen.append(view)

    async with office(tmp_path, ["first answer", "second answer", "third answer"], by_turn=False) as desk:
        hooks = [TrimContext(max_messages=3), Redact(["first"], "***"), Look()]
        async with desk.open(attrs.evolve(desk.agent(), hooks=hooks)) as runtime:
            session = runtime.session("desk", "s")
            for text in ("first question", "second question", "third question"):
                await (await session.send(text)).wait()
        assert [[message.content for message in view.messages] for view in seen] == [
            ["*** question"],
            ["*** question", "*** answer", "second question"],
            ["second question", "second answer", "third question"],
        ]
        shown = [message["content"] for message in desk.stub.requests[-1].messages]
        assert shown[1:] == ["second question", "second answer", "third question"]
