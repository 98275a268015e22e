"""Which tools a model sees, which it must call, and which end the run with their result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
import trio.testing
from tests.agents.odd import Sealed, foreign, leaks, mute
from tests.agents.office import AnyTool, asks, happened, of, office, pending, told, types

from trouper import (
    Agent,
    DefinitionError,
    Image,
    Limits,
    ModelConfig,
    ModelError,
    RunCancelled,
    RunFailed,
    Runtime,
    StateKey,
    StepView,
    ToolError,
    ToolResult,
    tool,
)
from trouper.core.events import ActionPlanned, ModelRequested, RunHeard, RunSucceeded, ToolsBound
from trouper.testing import ScriptedModel, call, calls
from trouper.testing._answers import Answer
from trouper.testing._scripted import Answer as ScriptAnswer
from trouper.testing._scripted import Step


@tool(effect="read_only")
def look(n: int = 0) -> str:
    """Look."""
    if n < 0:
        raise ToolError("nothing there")
    return f"saw {n}"


@tool(effect="idempotent_write")
def write(n: int = 0) -> ToolResult:
    """Write."""
    return ToolResult(f"wrote {n}", update={"written": True})


@tool(effect="read_only", return_direct=True)
def report(n: int = 0) -> str:
    """Report."""
    if n < 0:
        raise ToolError("no report")
    return f"report {n} " + "x" * 60_000 if n == 9 else f"report {n}"


def by_state(step: StepView) -> list[str]:
    return ["look"] if step.state["written"] else ["write", "look"]


def agent(*steps: Step, bind: Any = None, config: ModelConfig | None = None, tools: Sequence[AnyTool] = ()) -> Agent:
    return Agent(
        "desk",
        tools=tools or [look, write, report],
        model=ScriptedModel(steps, by_turn=True),
        bind=bind,
        config=config or ModelConfig(),
        state={"written": StateKey(bool, default=False)},
    )


def seen(made: Agent) -> list[list[str]]:
    """The tools of each request."""
    assert isinstance(made.model, ScriptedModel)
    return [[spec.name for spec in request.tools] for request in made.model.requests]


def choices(made: Agent) -> list[str | None]:
    assert isinstance(made.model, ScriptedModel)
    return [request.config.tool_choice for request in made.model.requests]


# ---- binding


async def test_tools_are_chosen_for_each_step_and_journaled_before_the_request(tmp_path: Path) -> None:
    desk = agent(call("write", n=1), call("write", n=2), call("look", n=3), "Done.", bind=by_state)
    async with office(tmp_path, done=False) as place, place.open(desk) as runtime:
        run = await runtime.submit("desk", "go")
        result = await run.wait()
        assert seen(desk) == [["look", "write"], ["look"], ["look"], ["look"]]
        bound = await of(run, ToolsBound)
        assert [(event.index, event.tools) for event in bound] == [
            (0, ("look", "write")),
            (1, ("look",)),
            (2, ("look",)),
            (3, ("look",)),
        ]
        names = await types(run)
        assert names.count("tools.bound") == names.count("model.requested")
        assert names.index("tools.bound") + 1 == names.index("model.requested")
        assert [str(message.content) for message in result.messages if message.role == "tool"] == [
            "wrote 1",
            "Not started: the tool 'write' is not available in this step. Tools: look.",
            "saw 3",
        ]
        planned = await of(run, ActionPlanned)
        assert [event.gate for event in planned] == ["free", "refused", "free"]


async def test_a_cancelled_run_does_not_wait_for_a_choice_of_tools(tmp_path: Path) -> None:
    asked = trio.Event()

    async def bind(_: StepView) -> NoReturn:
        asked.set()
        await trio.sleep_forever()

    async with office(tmp_path, done=False) as place, place.open(agent("Done.", bind=bind)) as runtime:
        run = await runtime.submit("desk", "go")
        await asked.wait()
        await runtime.cancel(run.id, by="maria")
        with pytest.raises(RunCancelled):
            await run.wait()
        assert await of(run, ToolsBound) == await of(run, ModelRequested) == []


async def test_tools_are_chosen_for_what_the_model_will_see(tmp_path: Path) -> None:
    asked, go, seen_messages = trio.Event(), trio.Event(), list[int]()

    async def bind(step: StepView) -> list[str]:
        seen_messages.append(len(step.messages))
        if len(seen_messages) == 1:
            asked.set()
            await go.wait()
        return ["look"]

    async with office(tmp_path, done=False) as place, place.open(agent("Done.", bind=bind)) as runtime:
        run = await runtime.submit("desk", "go")
        await asked.wait()
        await runtime.steer(run.id, "use the other tool", by="maria")
        await happened(runtime, run, RunHeard)
        go.set()
        await run.wait()
        assert seen_messages[-1] == 2


async def test_an_attempt_at_the_same_request_has_the_same_tools_also_after_a_restart(tmp_path: Path) -> None:
    asked: list[int] = []

    async def bind(step: StepView) -> set[str]:
        await trio.lowlevel.checkpoint()
        asked.append(step.index)
        return {"look"} if len(asked) == 1 else {"write"}

    failing: list[ScriptAnswer] = [ModelError("busy", retryable=True, retry_after=1000), "Done."]
    async with office(tmp_path, done=False) as place:
        desk = agent(failing, bind=bind)
        async with place.open(desk) as runtime:
            run = await runtime.submit("desk", "go", limits=Limits(model_attempts=1))
            with pytest.raises(RunFailed):
                await run.wait()
        again = agent("Done.", bind=bind)
        async with place.open(again) as runtime:
            await runtime.resume(run.id, by="maria")
            await runtime.run(run.id).wait()
            assert asked == [0]
            assert seen(again) == [["look"]]
            digests = {event.digest for event in await of(runtime.run(run.id), ModelRequested)}
            assert len(digests) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (["look", "fly"], "bind named 'fly', which is no tool of the agent; tools: look, write, report"),
        ("look", "bind answered str, which names no tools"),
        (None, "bind answered NoneType, which names no tools"),
        ([look], "bind answered list, which names no tools"),
        (ValueError("no idea"), "bind raised ValueError: no idea"),
        (mute, "bind raised Mute: (its message cannot be shown: RuntimeError)"),
        (Sealed(), "bind raised RuntimeError: sealed"),
        (foreign, "bind let BaseExceptionGroup escape, of a cancellation of its own"),
        (leaks, "bind let Cancelled escape, of a cancellation of its own"),
    ],
)
async def test_a_choice_that_cannot_be_meant_fails_the_run_until_it_is_mended(
    tmp_path: Path, answer: object, said: str
) -> None:
    answers: list[object] = [answer, ["look"]]

    def bind(_: StepView) -> object:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given() if callable(given) else given

    desk = agent("Done.", bind=bind)
    async with office(tmp_path, done=False) as place, place.open(desk) as runtime:
        run = await runtime.submit("desk", "go")
        with pytest.raises(RunFailed, match=r"bind .*it can go on: runtime\.resume") as caught:
            await run.wait()
        assert said in str(caught.value)
        assert seen(desk) == []
        await runtime.resume(run.id, by="maria")
        assert (await run.wait()).output == "Done."
        assert seen(desk) == [["look"]]


async def test_no_tool_at_all_is_a_choice_too(tmp_path: Path) -> None:
    desk = agent("Done.", bind=lambda _: (), config=ModelConfig(tool_choice="required"))
    async with office(tmp_path, done=False) as place, place.open(desk) as runtime:
        run = await runtime.submit("desk", "go")
        await run.wait()
        assert seen(desk) == [[]]


# ---- tool choice


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", ["auto", "auto", "auto"]),
        ("none", ["none", "none", "none"]),
        (None, [None, None, None]),
        ("required", ["required", "auto", "auto"]),
        ("look", ["look", "auto", "auto"]),
        ("write", ["write", "write", "auto"]),
    ],
)
async def test_a_forced_choice_holds_until_it_was_obeyed(
    tmp_path: Path, choice: str | None, expected: list[str | None]
) -> None:
    desk = agent(call("look"), call("write"), "Done.", config=ModelConfig(tool_choice=choice))
    async with office(tmp_path, done=False) as place, place.open(desk) as runtime:
        run = await runtime.submit("desk", "go")
        assert (await run.wait()).output == "Done."
        assert choices(desk) == expected


async def test_a_forced_choice_is_still_to_be_obeyed_after_a_restart(tmp_path: Path) -> None:
    async with office(tmp_path, tools=lambda world: [world.mailer()], done=False) as place:

        def made() -> Agent:
            config = ModelConfig(tool_choice="look")
            return agent(call("send_email", to="a"), call("look"), "Done.", config=config, tools=[look, *place.tools])

        async with place.open(made()) as runtime:
            run = await runtime.submit("desk", "go")
            (waiting,) = await pending(runtime)
        desk = made()
        async with place.open(desk) as runtime:
            await runtime.approve(waiting.action, by="maria")
            assert (await runtime.run(run.id).wait()).output == "Done."
            assert choices(desk) == ["look", "auto"]


async def test_a_tool_that_a_step_does_not_offer_is_not_demanded(tmp_path: Path) -> None:
    desk = agent("Done.", bind=lambda _: ["look"], config=ModelConfig(tool_choice="write"))
    async with office(tmp_path, done=False) as place, place.open(desk) as runtime:
        await (await runtime.submit("desk", "go")).wait()
        assert choices(desk) == ["auto"]


async def test_choices_go_over_the_wire(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("look", {})), "Done."]
    async with office(tmp_path, script, [look]) as place:
        named = Agent("desk", tools=[look], model=place.model(), config=ModelConfig(tool_choice="look"))
        async with place.open(named) as runtime:
            await (await runtime.submit("desk", "go")).wait()
        assert [request.body.get("tool_choice") for request in place.stub.requests] == [
            {"type": "function", "function": {"name": "look"}},
            "auto",
        ]


# ---- return direct


async def test_a_tool_may_end_the_run_with_its_result(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("look", {}), text=None), asks(("report", {"n": 9}))], [look, report]) as place:
        async with place.open() as runtime:
            run = await runtime.submit("desk", "report")
            result = await run.wait()
            assert result.output == "report 9 " + "x" * 60_000
            assert [message.role for message in result.messages] == ["human", "ai", "tool", "ai", "tool"]
            (succeeded,) = await of(run, RunSucceeded)
            assert succeeded.source == "1.0"
            assert [event.direct for event in await of(run, ActionPlanned)] == [False, True]
        async with place.open() as runtime:
            again = await runtime.run(run.id).result()
            assert again.output == result.output


@pytest.mark.parametrize(
    ("batch", "ends", "output"),
    [
        (calls(call("report", n=1), call("report", n=2)), True, "report 2"),
        (calls(call("report", n=1), call("look")), False, "Done."),
        (calls(call("report", n=1), call("report", n=-1)), False, "Done."),
        (calls(call("report", n=-1)), False, "Done."),
        (calls(call("report", n=1), call("no-such-tool")), False, "Done."),
    ],
)
async def test_a_reply_ends_the_run_if_all_its_calls_return_directly_and_succeed(
    tmp_path: Path, batch: Step, ends: bool, output: str
) -> None:
    desk = agent(batch, "Done.")
    async with office(tmp_path, done=False) as place, place.open(desk) as runtime:
        run = await runtime.submit("desk", "go")
        assert (await run.wait()).output == output
        assert len(seen(desk)) == (1 if ends else 2)


async def test_what_is_said_before_the_end_is_heard(tmp_path: Path) -> None:
    gated = tool(report.fn, name="report", effect="read_only", return_direct=True, requires_approval=True)
    desk = agent(call("report", n=1), "As you wish.", tools=[gated])
    async with office(tmp_path, done=False) as place, place.open(desk) as runtime:
        run = await runtime.submit("desk", "go")
        (waiting,) = await pending(runtime)
        await runtime.steer(run.id, "And sum it up for me.", by="maria")
        await runtime.approve(waiting.action, by="maria")
        assert (await run.wait()).output == "As you wish."


async def test_a_denied_call_does_not_end_the_run_and_the_limit_does_not_hold_back_a_result(tmp_path: Path) -> None:
    gated = tool(report.fn, name="report", effect="read_only", return_direct=True, requires_approval=True)
    desk = agent(call("report", n=1), "Sorry.", tools=[gated])
    async with office(tmp_path, done=False) as place, place.open(desk) as runtime:
        run = await runtime.submit("desk", "go")
        (waiting,) = await pending(runtime)
        await runtime.deny(waiting.action, by="maria")
        assert (await run.wait()).output == "Sorry."
        tight = await runtime.submit("desk", "go", limits=Limits(max_steps=2))
        (waiting,) = await pending(runtime)
        await runtime.approve(waiting.action, by="maria")
        assert (await tight.wait()).output == "report 1"


async def test_a_sub_agents_direct_result_is_its_answer(tmp_path: Path) -> None:
    clerk = Agent("clerk", tools=[report], model=ScriptedModel([call("report", n=1)], by_turn=True))
    top = Agent("top", tools=[clerk.as_tool()], model=ScriptedModel([call("clerk", input="go"), "Done."], by_turn=True))
    async with office(tmp_path, done=False) as place, place.open(top) as runtime:
        run = await runtime.submit("top", "go")
        assert str((await run.wait()).messages[2].content) == "report 1"


async def test_the_output_is_the_text_of_parts() -> None:
    @tool(effect="read_only", return_direct=True)
    def draw() -> list[object]:
        """Draw."""
        return ["A chart: ", Image(url="https://example.org/a.png")]

    desk = Agent("desk", tools=[draw], model=ScriptedModel([call("draw")]))
    async with Runtime.open(None, agents=[desk]) as runtime:
        assert (await (await runtime.submit("desk", "draw")).wait()).output == "A chart: [image_url]"


# ---- declarations


def test_declarations_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(DefinitionError, match="agent desk, bind: give a function"):
        agent(bind=["look"])
    with pytest.raises(DefinitionError, match="tool_choice names 'fly', which is no tool"):
        agent(config=ModelConfig(tool_choice="fly"))
    with pytest.raises(DefinitionError, match="report returns directly, which would end a run without its output"):
        Agent("desk", tools=[report], model=ScriptedModel([]), output=int)
    with pytest.raises(DefinitionError, match="tool look, return_direct: give true or false"):
        tool(look.fn, return_direct="yes")  # type: ignore[call-overload]  # to be refused


def test_what_is_not_used_does_not_stand_in_the_definition() -> None:
    plain, binding = agent().definition, agent(bind=by_state).definition
    assert "bind" not in plain.contract
    assert binding.contract["bind"] is True
    assert report.contract()["return_direct"] is True
    assert "return_direct" not in look.contract()


# ---- together


@pytest.mark.parametrize("sync", [False, True])
async def test_calls_of_one_reply_run_together_and_answer_in_the_order_asked(tmp_path: Path, *, sync: bool) -> None:
    """Each waits for the other to have begun: one after the other they would never end."""
    begun = [trio.Event(), trio.Event()]

    async def meet(n: int) -> str:
        """Meet."""
        begun[n].set()
        await begun[1 - n].wait()
        if n == 0:
            # The first that was asked for is the last to end.
            await trio.testing.wait_all_tasks_blocked()
        return f"met {n}"

    def meet_in_a_thread(n: int) -> str:
        """Meet."""
        return trio.from_thread.run(meet, n)

    made: Callable[..., object] = meet_in_a_thread if sync else meet
    pair = tool(made, name="meet", effect="read_only")
    script: list[Answer] = [asks(("meet", {"n": 0}), ("meet", {"n": 1})), "Done."]
    async with office(tmp_path, script, [pair]) as place, place.open() as runtime:
        run = await runtime.submit("desk", "meet")
        await run.wait()
        assert told(place.stub.requests[-1].messages) == ["met 0", "met 1"]
        names = [name for name in await types(run) if name in {"action.started", "action.receipted"}]
        assert names == ["action.started", "action.started", "action.receipted", "action.receipted"]
