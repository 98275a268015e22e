"""A refusal ends the run, at once and by name, and nothing that stands beside it is begun."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.agents.office import asks, of, office
from tests.agents.recipes import SOUP, TYPED, Recipe, cook

from trouper import ModelRefused, RunResult, ToolMessage
from trouper.core.conversation import Value
from trouper.core.events import ActionReceipted, ActionStarted, OutputRejected
from trouper.testing import Chunks, Reply
from trouper.testing._answers import Answer

CANT: Mapping[str, Value] = {"refusal": "I can't"}
REFUSALS = [
    pytest.param(Reply(None, fields=CANT), "I can't", id="content null"),
    pytest.param(Reply("Sorry, no.", fields=CANT), "Sorry, no.", id="beside text"),
    pytest.param(Reply(json.dumps(SOUP), fields=CANT), json.dumps(SOUP), id="beside an output"),
    pytest.param(Reply("", finish="content_filter"), "", id="filtered"),
    pytest.param(Reply("Take a", finish="content_filter"), "Take a", id="filtered half-way"),
    pytest.param(Reply(None, finish="content_filter"), "", id="filtered, content null"),
    pytest.param(Reply("No.", finish="refusal"), "No.", id="finish reason"),
    pytest.param(
        Chunks([{"role": "assistant", "refusal": "I c"}, {"refusal": "an't"}], finish="stop"), "I can't", id="streamed"
    ),
]


@pytest.mark.parametrize("output", [Recipe, None], ids=["output", "text"])
@pytest.mark.parametrize(("refusal", "said"), REFUSALS)
async def test_case_21_a_refusal_ends_the_run_after_one_request(
    refusal: Answer, said: str, output: object, tmp_path: Path
) -> None:
    stream = isinstance(refusal, Chunks)
    async with (
        office(tmp_path, lambda _: refusal, lambda world: [world.adder()], stream=stream) as desk,
        desk.open(cook(desk, output)) as runtime,
    ):
        run = await runtime.submit("desk", "Soup!")
        with pytest.raises(ModelRefused, match="refused to answer, or its provider filtered") as caught:
            await run.wait()
        result = caught.value.result
        assert isinstance(result, RunResult)
        assert len(desk.stub.requests) == 1
        assert (result.text, result.output, result.status) == (said, None, "failed")
        assert result.usage.output_tokens == 5
        assert await of(run, OutputRejected) == []
        state = await run.state()
        assert state.failure == "refused"
        assert state.messages[-1].refusal == (  # type: ignore[union-attr]  # the model's
            "I can't" if stream or (isinstance(refusal, Reply) and refusal.fields) else None
        )


@pytest.mark.parametrize("finish", [None, "content_filter"])
async def test_case_21_calls_beside_a_refusal_are_not_begun(finish: str | None, tmp_path: Path) -> None:
    calls = asks(("add", {"n": 1}), ("final_result", SOUP)).calls
    refusal = Reply(None, calls, finish=finish, fields={} if finish else CANT)
    async with (
        office(tmp_path, lambda _: refusal, lambda world: [world.adder()]) as desk,
        desk.open(cook(desk)) as runtime,
    ):
        run = await runtime.submit("desk", "Soup!")
        with pytest.raises(ModelRefused):
            await run.wait()
        assert len(desk.stub.requests) == 1
        assert desk.world.effects == []
        assert await of(run, ActionStarted) == []
        receipts = await of(run, ActionReceipted)
        assert [(event.action, event.outcome, event.evidence) for event in receipts] == [
            ("0.0", "error", "not_started"),
            ("0.1", "error", "not_started"),
        ]
        answers = [message for message in (await run.result()).messages if isinstance(message, ToolMessage)]
        assert ["refusal" in str(answer.content) for answer in answers] == [True, True]


async def test_after_a_refusal_somebody_may_let_the_run_go_on(tmp_path: Path) -> None:
    script: list[Answer] = [Reply(None, fields=CANT), Reply("", finish="content_filter"), json.dumps(SOUP)]
    async with office(tmp_path, script) as desk:
        async with desk.open(cook(desk)) as runtime:
            run = await runtime.submit("desk", "Soup!")
            with pytest.raises(ModelRefused):
                await run.wait()
        async with desk.open(cook(desk)) as runtime:
            run = runtime.run(run.id)
            await runtime.resume(run.id, by="maria")
            with pytest.raises(ModelRefused):
                await run.wait()
            await runtime.resume(run.id, by="maria")
            assert (await run.wait()).output == TYPED
            # The history stays one that a provider takes, refusals in it.
            assert [message["role"] for message in desk.stub.requests[2].messages[1:]] == [
                "user",
                *["assistant", "user"] * 2,
            ]
