"""A run as a stream: what is recorded comes whole and in order, pieces come live, and no listener is in the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from tests.agents.office import asks, office, pending
from trio.testing import wait_all_tasks_blocked

from trouper import (
    AI,
    Agent,
    Human,
    Judgement,
    ModelError,
    Principal,
    Runtime,
    RuntimeOptions,
    SubmitOptions,
    ToolContext,
    ToolMessage,
    UnknownRun,
    tool,
)
from trouper.core.conversation import Message, ToolSpec, Usage, Value
from trouper.core.events import ModelRequested, ModelResponded, RunSucceeded
from trouper.core.exchange import Chunk, Finished, ModelConfig, ModelReply, TextDelta
from trouper.errors import RuntimeStopped, StreamOverrun
from trouper.streaming import (
    CallPiece,
    Ended,
    ReasoningPiece,
    Recorded,
    RefusalPiece,
    RunStream,
    Skipped,
    StreamEvent,
    Superseded,
    TextPiece,
    ToolProgress,
)
from trouper.testing import Chunks, ManualClock, ScriptedModel


async def collected(stream: RunStream) -> list[StreamEvent]:
    async with stream:
        return [event async for event in stream]


def versions(events: Sequence[StreamEvent]) -> list[int]:
    return [event.version for event in events if isinstance(event, Recorded)]


def messages(events: Sequence[StreamEvent]) -> list[Message]:
    return [message for event in events if isinstance(event, Recorded) for message in event.messages]


class PieceByPiece:
    """A model that streams its answers, each after a gate; an exception in a script breaks the stream off."""

    name = "pieces"

    def __init__(self, *scripts: Sequence[str | Exception]) -> None:
        self.scripts = list(scripts)
        self.asked: list[str] = []
        self.gate = trio.Event()
        self.gate.set()

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig
    ) -> ModelReply:
        await trio.lowlevel.checkpoint()
        self.asked.append("whole")
        return self._reply(self.scripts.pop(0))

    async def astream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig
    ) -> AsyncIterator[Chunk]:
        self.asked.append("pieces")
        script = self.scripts.pop(0)
        for step in script:
            if isinstance(step, Exception):
                raise step
            yield TextDelta(step)
            await self.gate.wait()
        yield Finished(self._reply(script))

    def _reply(self, script: Sequence[str | Exception]) -> ModelReply:
        return ModelReply(AI("", "".join(step for step in script if isinstance(step, str))), usage=Usage(1, 1))


async def test_pieces_come_between_what_is_recorded_and_the_message_comes_once() -> None:
    model = PieceByPiece(["It ", "is ", "done."])
    async with Runtime.open(None, [Agent("desk", model=model)]) as runtime:
        run = await runtime.submit("desk", "Go.")
        async with run.stream() as stream:
            events = [event async for event in stream]
        whole = [event for event in events if isinstance(event, Recorded)]
        assert versions(events) == list(range(1, len(await run.events()) + 1))
        assert [event.event for event in whole] == [event for _, event in await run.events()]
        pieces = [event for event in events if isinstance(event, TextPiece)]
        assert pieces == [TextPiece(run.id, 0, 1, text) for text in ("It ", "is ", "done.")]
        kinds = [type(event.event) if isinstance(event, Recorded) else type(event) for event in events]
        asked, answered = kinds.index(ModelRequested), kinds.index(ModelResponded)
        assert kinds[asked + 1 : answered] == [TextPiece] * 3
        assert messages(events) == [Human(f"{run.id}/input", "Go."), AI(f"{run.id}/0", "It is done.")]
        assert events[-1] == Ended(run.id, "succeeded")


async def test_nobody_listens_and_the_model_is_not_asked_to_stream() -> None:
    model = PieceByPiece(["quiet"], ["heard"])
    async with Runtime.open(None, [Agent("desk", model=model)]) as runtime:
        assert (await (await runtime.submit("desk", "Go.")).wait()).output == "quiet"
        run = await runtime.submit("desk", "Go.")
        await collected(run.stream())
        assert model.asked == ["whole", "pieces"]


async def test_an_attempt_that_broke_off_is_superseded_by_the_next() -> None:
    clock = ManualClock()
    model = PieceByPiece(["Half an", ModelError("cut", retryable=True)], ["A whole ", "answer"])
    async with (
        Runtime.open(None, [Agent("desk", model=model)], clock=clock) as runtime,
        trio.open_nursery() as nursery,
    ):
        run = await runtime.submit("desk", "Go.")
        events: list[StreamEvent] = []
        broke = trio.Event()

        async def listen() -> None:
            async with run.stream() as stream:
                async for event in stream:
                    events.append(event)
                    if isinstance(event, Superseded):
                        broke.set()

        nursery.start_soon(listen)
        await broke.wait()
        await wait_all_tasks_blocked()
        clock.advance(600)
        await run.wait()
    told = [event for event in events if isinstance(event, TextPiece | Superseded)]
    assert told == [
        TextPiece(run.id, 0, 1, "Half an"),
        Superseded(run.id, 0, 1),
        TextPiece(run.id, 0, 2, "A whole "),
        TextPiece(run.id, 0, 2, "answer"),
    ]
    assert [message.content for message in messages(events)] == ["Go.", "A whole answer"]


async def test_any_number_listens_and_leaving_early_never_hurts_the_run() -> None:
    model = PieceByPiece([f"{number} " for number in range(50)])
    async with Runtime.open(None, [Agent("desk", model=model)]) as runtime:
        run = await runtime.submit("desk", "Go.")
        whole: list[list[StreamEvent]] = []

        async def stays() -> None:
            whole.append(await collected(run.stream()))

        async def leaves_at_the_first_piece() -> None:
            async with run.stream() as stream:
                async for event in stream:
                    if isinstance(event, TextPiece):
                        return

        async def is_cancelled() -> None:
            with trio.CancelScope() as scope:
                async with run.stream() as stream:
                    async for event in stream:
                        if isinstance(event, TextPiece):
                            scope.cancel()

        async def raises() -> None:
            async def leave() -> None:
                async with run.stream() as stream:
                    async for event in stream:
                        raise KeyError(event)

            with pytest.raises(KeyError):
                await leave()

        async with trio.open_nursery() as nursery:
            for listener in (stays, stays, leaves_at_the_first_piece, is_cancelled, raises):
                nursery.start_soon(listener)
        assert (await run.wait()).status == "succeeded"
        assert whole[0] == whole[1]
        assert len([event for event in whole[0] if isinstance(event, TextPiece)]) == 50


async def test_a_slow_listener_misses_pieces_and_nothing_that_is_recorded() -> None:
    model = PieceByPiece([f"{number} " for number in range(500)])
    async with Runtime.open(None, [Agent("desk", model=model)]) as runtime:
        run = await runtime.submit("desk", "Go.")
        async with run.stream(room=5) as stream:
            first = await anext(stream)
            assert isinstance(first, Recorded)
            # It sleeps through the whole run.
            await run.wait()
            events = [first, *[event async for event in stream]]
        assert versions(events) == list(range(1, len(await run.events()) + 1))
        skipped = sum(event.pieces for event in events if isinstance(event, Skipped))
        assert skipped > 400
        assert messages(events)[-1] == AI(f"{run.id}/0", "".join(f"{number} " for number in range(500)))
        assert events[-1] == Ended(run.id, "succeeded")


async def test_a_slow_listener_may_choose_to_be_disconnected() -> None:
    model = PieceByPiece([f"{number} " for number in range(500)])
    async with Runtime.open(None, [Agent("desk", model=model)]) as runtime:
        run = await runtime.submit("desk", "Go.")
        async with run.stream(room=5, lag="disconnect") as stream:
            await anext(stream)
            await run.wait()
            with pytest.raises(StreamOverrun, match=run.id):
                await collected(stream)


async def test_tools_tell_progress_and_calls_come_in_pieces(tmp_path: Path) -> None:
    @tool(effect="read_only")
    async def dig(depth: int, ctx: ToolContext) -> str:
        """Dig."""
        for reached in range(depth):
            await ctx.progress({"reached": reached + 1})
        return "dug"

    clock = ManualClock()
    async with (
        office(tmp_path, [asks(("dig", {"depth": 3})), "Done."], [dig], stream=True, clock=clock) as desk,
        desk.open() as runtime,
    ):
        # It begins when somebody listens, and not before.
        later = SubmitOptions(start_at=clock.now() + 1_000_000_000)
        run = await runtime.submit("desk", "Dig.", options=later)
        async with run.stream() as stream:
            clock.advance(2)
            events = [event async for event in stream]
    told = [event for event in events if isinstance(event, ToolProgress)]
    assert told == [ToolProgress(run.id, "0.0", 1, {"reached": reached}) for reached in (1, 2, 3)]
    calls = [event for event in events if isinstance(event, CallPiece)]
    assert "".join(piece.arguments for piece in calls) == '{"depth": 3}'
    assert {piece.name for piece in calls} - {None} == {"dig"}
    (answer,) = [message for message in messages(events) if isinstance(message, ToolMessage)]
    assert answer.content == "dug"


async def test_a_stream_goes_on_over_an_approval_from_another_process_and_over_a_restart(tmp_path: Path) -> None:
    async with office(tmp_path, [asks(("send_email", {"to": "a"})), "Sent."], lambda w: [w.mailer()]) as desk:
        begun: list[StreamEvent] = []

        async def until_the_runtime_stops(stream: RunStream) -> None:
            async with stream:
                with suppress(RuntimeStopped):
                    while True:
                        begun.append(await anext(stream))

        async with trio.open_nursery() as nursery, desk.open() as runtime:
            run = await runtime.submit("desk", "Write.")
            nursery.start_soon(until_the_runtime_stops, run.stream())
            (call,) = await pending(runtime)
            await wait_all_tasks_blocked()
        seen = versions(begun)[-1]
        async with desk.commands() as commands:
            await commands.decide(call.action, Judgement("approve", Principal("maria")))
        async with desk.open() as runtime:
            rest = await collected(runtime.run(run.id).stream(after=seen))
            whole = await runtime.run(run.id).events()
    assert versions(begun) + versions(rest) == list(range(1, len(whole) + 1))
    assert isinstance([event.event for event in rest if isinstance(event, Recorded)][-1], RunSucceeded)


async def test_what_ended_long_ago_is_told_from_the_journal(tmp_path: Path) -> None:
    async with Runtime.open(tmp_path / "a.db", [Agent("desk", model=ScriptedModel(["Hi."]))]) as runtime:
        run = await runtime.submit("desk", "Go.")
        await run.wait()
        events = await collected(run.stream())
        assert all(earlier < later for earlier, later in pairwise(versions(events)))
        assert events[-1] == Ended(run.id, "succeeded")
        assert await collected(run.stream(after=versions(events)[-1])) == [Ended(run.id, "succeeded")]
        with pytest.raises(UnknownRun):
            await collected(runtime.run("nobody").stream())


async def test_reasoning_and_refusals_come_in_pieces_too(tmp_path: Path) -> None:
    deltas: list[Mapping[str, Value]] = [
        {"role": "assistant", "reasoning_content": "Let me "},
        {"reasoning_content": "see."},
        {"refusal": "I ca"},
        {"refusal": "n't."},
    ]
    async with office(tmp_path, [Chunks(deltas, finish="stop")], stream=True) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        events = await collected(run.stream())
        pieces = [event for event in events if isinstance(event, ReasoningPiece | RefusalPiece)]
        assert pieces == [
            ReasoningPiece(run.id, 0, 1, "Let me "),
            ReasoningPiece(run.id, 0, 1, "see."),
            RefusalPiece(run.id, 0, 1, "I ca"),
            RefusalPiece(run.id, 0, 1, "n't."),
        ]
        (reply,) = [message for message in messages(events) if isinstance(message, AI)]
        assert (reply.reasoning, reply.refusal, reply.content) == ("Let me see.", "I can't.", None)


async def test_an_attempt_that_was_lost_with_the_runtime_is_superseded(tmp_path: Path) -> None:
    stuck = PieceByPiece(["Half ", "an answer"])
    stuck.gate = trio.Event()
    heard: list[StreamEvent] = []
    options = RuntimeOptions(drain=0.05)
    async with Runtime.open(tmp_path / "a.db", [Agent("desk", model=stuck)], options=options) as runtime:
        run = await runtime.submit("desk", "Go.")
        async with run.stream() as stream:
            while not any(isinstance(event, TextPiece) for event in heard):
                heard.append(await anext(stream))
    whole = PieceByPiece(["A whole answer"])
    async with Runtime.open(tmp_path / "a.db", [Agent("desk", model=whole)]) as runtime:
        rest = await collected(runtime.run(run.id).stream(after=versions(heard)[-1]))
    assert heard[-1] == TextPiece(run.id, 0, 1, "Half ")
    void = rest.index(Superseded(run.id, 0, 1))
    assert [event.attempt for event in rest[void:] if isinstance(event, TextPiece)] in ([2], [])
    assert [message.content for message in messages([*heard, *rest])] == ["Go.", "A whole answer"]
