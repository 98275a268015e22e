"""Named state: what tools write through reducers, what they read, and what a run starts and ends with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import attrs
import pytest
from tests.agents.office import asks, of, office, told, until

from trouper import Agent, Principal, StateKey, SubmitOptions, Task, ToolContext, ToolResult, tool
from trouper.core.events import ActionReceipted, StateChanged, StateOp
from trouper.core.state import known
from trouper.errors import DefinitionError, IdempotencyConflict, InvalidValue, RunFailed
from trouper.testing import ScriptedModel
from trouper.testing._answers import Answer
from trouper.tools import Absent, Found


@dataclass
class Plan:
    steps: list[str]
    done: bool = False


def longest(old: str | None, new: str) -> str:
    """An own reducer."""
    return new if old is None or len(new) > len(old) else old


KEYS = {
    "notes": StateKey(list[str], reducer="append"),
    "ages": StateKey(dict[str, int], reducer="merge", default={"eve": 1}),
    "plan": StateKey(Plan, default=Plan(["look"])),
    "word": StateKey(str, reducer=longest),
}


@tool(effect="idempotent_write")
async def write(key: str, value: str) -> ToolResult:
    """Write a text to a key."""
    return ToolResult(f"wrote {value}", update={key: value})


@tool(effect="idempotent_write")
def grow(name: str, age: int, ctx: ToolContext) -> ToolResult:
    """Write to several keys."""
    plan: Plan = ctx.state["plan"]
    plan.steps.append(name)
    return ToolResult(update={"ages": {name: age}, "plan": Plan(plan.steps, done=True)})


@tool(effect="read_only")
def read(ctx: ToolContext) -> str:
    """Tell the state."""
    return repr(dict(ctx.state))


async def test_tools_write_through_reducers_and_read_python_values(tmp_path: Path) -> None:
    script: list[Answer] = [
        asks(("write", {"key": "notes", "value": "a"}), ("grow", {"name": "bob", "age": 3})),
        asks(("write", {"key": "notes", "value": "b"}), ("write", {"key": "word", "value": "short"})),
        asks(("write", {"key": "word", "value": "longer"})),
        asks(("write", {"key": "word", "value": "no"}), ("read", {})),
        "done",
    ]
    async with office(tmp_path, script, [write, grow, read]) as desk:
        agent = attrs.evolve(desk.agent(), state=KEYS)
        async with desk.open(agent) as runtime:
            run = await runtime.submit("desk", "go")
            result = await run.wait()
            assert dict(result.state) == {
                "notes": ["a", "b"],
                "ages": {"eve": 1, "bob": 3},
                "plan": Plan(["look", "bob"], done=True),
                "word": "longer",
            }
            state = await run.state()
            assert state.named["plan"] == {"steps": ["look", "bob"], "done": True}
            # Appends and merges are journaled as such: bytes for what was written, not for what stands there.
            ops = [op for change in await of(run, StateChanged) for op in known(change.ops, ())]
            assert StateOp("append", "notes", "b") in ops
            assert StateOp("merge", "ages", {"bob": 3}) in ops
            assert StateOp("set", "word", "longer") in ops
            assert {change.source for change in await of(run, StateChanged)} == {"action"}
        # A tool sees the state as it was when its attempt began.
        assert "'word': 'longer'" in str(told(desk.stub.requests[-1].messages)[-1])
        # The same from another process that has no agent: plain values.
        async with desk.commands() as commands:
            assert (await commands.state(run.id)).named == state.named


async def test_what_a_tool_reads_is_its_own_to_change(tmp_path: Path) -> None:
    @tool(effect="read_only")
    def spoil(ctx: ToolContext) -> str:
        """Change what was read."""
        ctx.state["notes"].append("never written")
        ctx.state["ages"]["mallory"] = 9
        with pytest.raises(TypeError):
            ctx.state["notes"] = []  # type: ignore[index]
        return "ok"

    async with (
        office(tmp_path, [asks(("spoil", {})), "done"], [spoil]) as desk,
        desk.open(attrs.evolve(desk.agent(), state=KEYS)) as runtime,
    ):
        result = await (await runtime.submit("desk", "go")).wait()
        assert result.state["notes"] == []
        assert result.state["ages"] == {"eve": 1}


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("nowhere", "x", "nowhere: there is no such state key (keys: notes, ages, plan, word)"),
        ("ages", "x", "ages: Input should be an object"),
        ("plan", "x", "plan: Input should be an object"),
    ],
)
async def test_what_does_not_fit_is_an_error_receipt_and_changes_nothing(
    tmp_path: Path, key: str, value: str, complaint: str
) -> None:
    @tool(effect="idempotent_write")
    def both(key: str, value: str) -> ToolResult:
        """Write to two keys."""
        return ToolResult("it is done", update={"notes": "fits", key: value})

    async with (
        office(tmp_path, [asks(("both", {"key": key, "value": value})), "sorry"], [both]) as desk,
        desk.open(attrs.evolve(desk.agent(), state=KEYS)) as runtime,
    ):
        run = await runtime.submit("desk", "go")
        result = await run.wait()
        (receipt,) = await of(run, ActionReceipted)
        assert receipt.outcome == "error"
        assert complaint in str(receipt.text)
        # The model is told that the call did its work.
        assert "it is done" in str(receipt.text)
        assert result.state["notes"] == []
        assert await of(run, StateChanged) == []


async def test_a_reducer_that_raises_is_an_error_receipt(tmp_path: Path) -> None:
    def refuse(old: object, new: object) -> object:
        raise ValueError(f"not {new}")

    async with (
        office(tmp_path, [asks(("write", {"key": "word", "value": "x"})), "sorry"], [write]) as desk,
        desk.open(attrs.evolve(desk.agent(), state={"word": StateKey(str, refuse)})) as runtime,
    ):
        run = await runtime.submit("desk", "go")
        result = await run.wait()
        (receipt,) = await of(run, ActionReceipted)
        assert "word: its reducer raised ValueError: not x" in str(receipt.text)
        assert "word" not in result.state


async def test_parallel_calls_are_applied_in_the_order_of_their_records(tmp_path: Path) -> None:
    many = [("write", {"key": "notes", "value": str(n)}) for n in range(20)]
    async with (
        office(tmp_path, [asks(*many), "done"], [write]) as desk,
        desk.open(attrs.evolve(desk.agent(), state=KEYS)) as runtime,
    ):
        run = await runtime.submit("desk", "go")
        result = await run.wait()
        receipts = [receipt.action.partition(".")[2] for receipt in await of(run, ActionReceipted)]
        assert result.state["notes"] == receipts
        assert sorted(receipts, key=int) == [str(n) for n in range(20)]


async def test_a_run_can_begin_with_state(tmp_path: Path) -> None:
    async with (
        office(tmp_path, [asks(("read", {})), "done"], [read]) as desk,
        desk.open(attrs.evolve(desk.agent(), state=KEYS)) as runtime,
    ):
        run = await runtime.submit(
            "desk", "go", options=SubmitOptions(state={"notes": ["first"], "plan": Plan([])}), command_id="c"
        )
        result = await run.wait()
        assert result.state["notes"] == ["first"]
        assert result.state["plan"] == Plan([])
        assert result.state["ages"] == {"eve": 1}
        assert (
            await runtime.submit(
                "desk", "go", options=SubmitOptions(state={"notes": ["first"], "plan": Plan([])}), command_id="c"
            )
        ).id
        with pytest.raises(IdempotencyConflict):
            await runtime.submit("desk", "go", options=SubmitOptions(state={"notes": ["other"]}), command_id="c")
        with pytest.raises(InvalidValue, match=r"notes\[0\]"):
            await runtime.submit("desk", "go", options=SubmitOptions(state={"notes": [1]}))
        with pytest.raises(InvalidValue, match="there is no such state key"):
            await runtime.submit("desk", "go", options=SubmitOptions(state={"nowhere": 1}))


async def test_a_state_that_was_submitted_elsewhere_and_does_not_fit_fails_the_run(tmp_path: Path) -> None:
    async with office(tmp_path, [], [read]) as desk:
        async with desk.commands() as commands:
            done = await commands.submit(
                Task("desk", "go", by=Principal("maria"), options=SubmitOptions(state={"notes": "none"}))
            )
        async with desk.open(attrs.evolve(desk.agent(), state=KEYS)) as runtime:
            run = runtime.run(done.run)
            with pytest.raises(RunFailed, match="notes: Input should be a valid array"):
                await run.wait()
            with pytest.raises(Exception, match="submit it anew"):
                await runtime.resume(run.id)


async def test_a_query_gives_back_what_its_call_wrote(tmp_path: Path) -> None:
    def found() -> Found | Absent:
        return Found(ToolResult("did it", update={"notes": "found"}))

    @tool(effect="queryable_write", query=found)
    def book() -> str:
        """Book, and raise."""
        raise OSError("line dropped")

    async with (
        office(tmp_path, [asks(("book", {})), "done"], [book]) as desk,
        desk.open(attrs.evolve(desk.agent(), state=KEYS)) as runtime,
    ):
        result = await (await runtime.submit("desk", "go")).wait()
        assert result.state["notes"] == ["found"]


async def test_new_keys_begin_with_their_defaults_when_a_definition_is_adopted(tmp_path: Path) -> None:
    @tool(effect="read_only", requires_approval=True)
    def gated(ctx: ToolContext) -> str:
        """Tell a key."""
        return str(ctx.state["fresh"])

    async with office(tmp_path, [asks(("gated", {})), "done"], [gated]) as desk:
        first = attrs.evolve(desk.agent(), state={"notes": StateKey(list[str], "append")})
        async with desk.open(first) as runtime:
            run = await runtime.submit("desk", "go", options=SubmitOptions(state={"notes": ["kept"]}))
            await until(runtime, run.id, "awaiting_approval")
        second = attrs.evolve(first, state={**first.state, "fresh": StateKey(int, default=7)})
        async with desk.open(second) as runtime:
            await runtime.adopt(run.id, by="maria")
            await until(runtime, run.id, "awaiting_approval")
            await runtime.approve(f"{run.id}/0.0", by="maria")
            result = await runtime.run(run.id).wait()
            assert dict(result.state) == {"notes": ["kept"], "fresh": 7}
        assert told(desk.stub.requests[-1].messages) == ["7"]


def test_keys_are_part_of_the_contract_and_only_when_used() -> None:
    model = ScriptedModel([])
    without = Agent("desk", model=model)
    assert "state" not in without.definition.contract
    with_keys = Agent("desk", model=model, state=KEYS)
    told_of = with_keys.definition.contract["state"]
    assert isinstance(told_of, dict)
    assert told_of["notes"] == {"reducer": "append", "schema": {"items": {"type": "string"}, "type": "array"}}
    assert told_of["word"] == {"reducer": "own:longest", "schema": {"type": "string"}}
    assert without.definition.contract_digest != with_keys.definition.contract_digest


@pytest.mark.parametrize(
    "make",
    [
        lambda: StateKey(int, reducer="append"),
        lambda: StateKey(list[int], reducer="merge"),
        lambda: StateKey(int, reducer="most"),  # type: ignore[arg-type]
        lambda: StateKey(int, default="x"),
        lambda: StateKey(object()),
        lambda: Agent("a", model=ScriptedModel([]), state={"no name!": StateKey(int)}),
        lambda: Agent("a", model=ScriptedModel([]), state={"n": int}),  # type: ignore[dict-item]
        lambda: Agent("a", model=ScriptedModel([]), state=[]),  # type: ignore[arg-type]
    ],
)
def test_keys_that_cannot_work_are_refused_at_once(make: object) -> None:
    assert callable(make)
    with pytest.raises(DefinitionError, match="state"):
        make()
