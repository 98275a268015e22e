"""`OpenAIModel` against a real HTTP server on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
import trio

from trouper.core.conversation import AI, Human, ToolCall, ToolMessage, ToolSpec, Usage
from trouper.core.exchange import Chunk, Finished, ModelConfig, ModelReply, ReasoningDelta, TextDelta, ToolCallDelta
from trouper.errors import DefinitionError, ModelError
from trouper.models import Model, StreamingModel, identity
from trouper.testing import Chunks, Drop, Raw, Reply, Status, StrictStub, Wait, strict_stub, tc
from trouper.testing._answers import Answer
from trouper_adapters.openai import Dialect, OpenAIModel, OpenAIOptions

HELLO = [Human("1", "hello")]
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"n": {"type": "integer"}}})


@asynccontextmanager
async def serving(
    *script: Answer, stream: bool = False, settings: ModelConfig | None = None
) -> AsyncIterator[tuple[OpenAIModel, StrictStub]]:
    with trio.fail_after(30):
        async with (
            strict_stub(script) as stub,
            OpenAIModel("m", base_url=stub.url, api_key="sk-secret", stream=stream, settings=settings) as model,
        ):
            yield model, stub
            stub.assert_done()


async def chunks_of(model: OpenAIModel) -> list[Chunk]:
    async with aclosing(model.astream(HELLO)) as chunks:
        return [chunk async for chunk in chunks]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_call_and_its_answer(*, stream: bool) -> None:
    ask = Reply(calls=[tc("x", "add", '{"n":1}'), tc("x", "add", '{"n":2}')], fields={"reasoning_content": "hm"})
    async with serving(ask, "Done.", stream=stream) as (model, stub):
        reply = await model.agenerate(HELLO, [ADD])
        assert reply.finish_reason == "tool_calls"
        assert reply.usage == Usage(10, 5)
        assert [(call.arguments, call.provider_id) for call in reply.message.tool_calls] == [
            ('{"n":1}', "x"),
            ('{"n":2}', "x"),
        ]
        first, second = (
            ToolCall(f"r/0.{i}", c.name, c.arguments, c.provider_id) for i, c in enumerate(reply.message.tool_calls)
        )
        asked = AI("2", reply.message.content, (first, second), reply.message.reasoning, None, "reasoning_content")
        answers = [ToolMessage("3", "r/0.0", "add", "1"), ToolMessage("4", "r/0.1", "add", "2")]
        final = await model.agenerate([*HELLO, asked, *answers], [ADD])
        assert (final.message.content, final.finish_reason, final.request_id) == ("Done.", "stop", "req-2")
        assert stub.requests[1].messages[1]["reasoning_content"] == "hm"
        assert all(("stream" in request.body) == stream for request in stub.requests)


async def test_a_stream_gives_its_pieces_and_then_the_whole() -> None:
    async with serving(Reply("héllo", [tc("x", "add", '{"n":1}')], fields={"reasoning": "hmm"})) as (model, _):
        chunks = await chunks_of(model)
        texts = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
        assert texts == ["hé", "llo"]
        assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)) == "hmm"
        assert [chunk for chunk in chunks if isinstance(chunk, ToolCallDelta)] == [
            ToolCallDelta(0, "x", "add", '{"n'),
            ToolCallDelta(0, None, None, '":1}'),
        ]
        assert isinstance(chunks[-1], Finished)
        assert chunks[-1].reply.message.content == "héllo"
        assert chunks[-1].reply.usage == Usage(10, 5)


async def test_a_streamed_and_a_plain_reply_are_the_same() -> None:
    answer = Reply("a\u2028b", [tc("", "add", ""), tc("", "now", "{}")], fields={"refusal": "no", "reasoning": "hm"})
    async with serving(answer, answer) as (model, _):
        plain = await model.agenerate(HELLO)
        streamed = (await chunks_of(model))[-1]
        assert isinstance(streamed, Finished)
        assert streamed.reply.message == plain.message
        assert streamed.reply.finish_reason == plain.finish_reason


def _sse(*lines: str) -> Raw:
    return Raw("".join(lines).encode(), "text/event-stream")


HI = '{"choices":[{"index":0,"delta":{"content":"hi"}}]}'
END = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
WHOLE = '{"choices":[{"message":{"content":"hi"}}]}'


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Raw(WHOLE.encode()), id="whole although a stream was asked for"),
        pytest.param(_sse(f"data: {HI}\n\ndata: {END}\n\n"), id="no DONE"),
        pytest.param(_sse(f"data: {HI}\n\ndata: [DONE]\n\n"), id="no finish reason"),
        pytest.param(_sse(f"data: {HI}\r\n\r\ndata: {END}\r\n\r\ndata: [DONE]\r\n\r\n"), id="CR LF"),
        pytest.param(_sse(f"data: {HI}\ndata: {END}\ndata: [DONE]\n"), id="no blank lines"),
        pytest.param(_sse(f": ping\n\ndata: {HI}\n\n: ping\n\ndata: {END}"), id="comments and no end"),
        pytest.param(_sse(f'data: {HI}\n\ndata: {{"usage":null,"choices":[]}}\n\ndata: {END}\n\n'), id="null usage"),
        pytest.param(Chunks([{"role": "assistant", "content": None}, {"content": "hi"}], usage=None), id="no usage"),
        pytest.param(Raw(b'{"choices":[{"message":{"content":"hi"},"logprobs":NaN}]}'), id="NaN among the figures"),
    ],
)
async def test_odd_but_complete_streams_are_read(answer: Answer) -> None:
    async with serving(answer, stream=True) as (model, _):
        reply = await model.agenerate(HELLO)
        assert (reply.message.content, reply.finish_reason) == ("hi", "stop")
        assert reply.usage == Usage()


async def test_a_stream_nobody_asked_for_is_read() -> None:
    async with serving(_sse(f"data: {HI}\n\ndata: {END}\n\n")) as (model, _):
        assert (await model.agenerate(HELLO)).message.content == "hi"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "retryable", "status", "told"),
    [
        (Status(400), False, 400, "injected"),
        (Status(401, {"error": {"message": "Incorrect API key provided: sk-secret."}}), False, 401, "key provided"),
        (Status(403, b"<html>Forbidden</html>"), False, 403, "Forbidden"),
        (Status(404, {"detail": "no such model"}), False, 404, "no such model"),
        (Status(408), True, 408, "injected"),
        (Status(429), True, 429, "injected"),
        (Status(500, b""), True, 500, "500"),
        (Status(502, b"<html>Bad Gateway</html>"), True, 502, "Bad Gateway"),
        (Status(503, {"error": "busy"}), True, 503, "busy"),
        (Raw(b"<html>200 OK</html>"), True, None, "not JSON"),
        (Raw(b""), True, None, "not JSON"),
        (Raw(b'{"error":{"message":"slow down, sk-secret","code":429}}'), True, 429, "slow down"),
        (Raw(b'{"choices":[]}'), True, None, "no choice"),
        (_sse("data: oops\n\n"), True, None, "not JSON"),
        (_sse(f'data: {HI}\n\ndata: {{"error":{{"message":"died","code":500}}}}\n\n'), True, 500, "died"),
        (_sse('event: error\ndata: {"message":"died"}\n\n'), True, None, "died"),
        (_sse(f"data: {HI}\n\n"), True, None, "broke off"),
        (Chunks([{"content": "hal"}], cut=True), True, None, "broke off"),
        (Drop(), True, None, "no connection"),
        (Raw(b"x" * 193 + b"sk-secret"), True, None, "not JSON"),
        (_sse(f"data: {'x' * 193}sk-secret\n\n"), True, None, "not JSON"),
    ],
)
async def test_errors_say_whether_another_attempt_may_help(
    answer: Answer, told: str, *, retryable: bool, status: int | None, stream: bool
) -> None:
    async with serving(answer, stream=stream) as (model, stub):
        with pytest.raises(ModelError, match=told) as caught:
            await model.agenerate(HELLO)
        assert (caught.value.retryable, caught.value.status) == (retryable, status)
        assert len(stub.requests) == 1
        error: BaseException | None = caught.value
        while error is not None:
            assert "sk-sec" not in str(error)
            error = error.__cause__


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:40 GMT", "date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 3.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:40 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
async def test_the_time_to_wait_is_told(headers: dict[str, str], seconds: float | None) -> None:
    async with serving(Status(429, headers=headers)) as (model, _):
        with pytest.raises(ModelError) as caught:
            await model.agenerate(HELLO)
        assert caught.value.retry_after == seconds


async def test_nobody_listens() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    async with OpenAIModel("m", base_url=f"http://127.0.0.1:{port}/v1", api_key="k") as model:
        with pytest.raises(ModelError, match="no connection") as caught:
            await model.agenerate(HELLO)
        assert caught.value.retryable


@pytest.mark.parametrize("answer", [Wait(trio.Event(), "late"), Chunks([{"content": "a"}, trio.Event()])])
async def test_a_server_that_falls_silent_times_out(answer: Answer) -> None:
    options = OpenAIOptions(timeout=0.3)
    with trio.fail_after(30):
        async with (
            strict_stub([answer]) as stub,
            OpenAIModel("m", base_url=stub.url, api_key="k", options=options) as model,
        ):
            with pytest.raises(ModelError) as caught:
                await model.agenerate(HELLO)
            assert caught.value.retryable
            await stub.wait_until(lambda stub: stub.disconnects == 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_before_the_answer_ends_the_request_at_once(*, stream: bool) -> None:
    async with serving(Wait(trio.Event(), "late"), "next", stream=stream) as (model, stub):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(model.agenerate, HELLO)
                await stub.wait_requests(1)
                scope.cancel()
        assert scope.cancelled_caught
        await stub.wait_until(lambda stub: stub.disconnects == 1 and stub.connections == 0)
        assert (await model.agenerate(HELLO)).message.content == "next"


async def test_cancelling_in_mid_stream_ends_the_request_at_once() -> None:
    got: list[str] = []
    async with serving(Chunks([{"content": "a"}, trio.Event(), {"content": "b"}]), "next") as (model, stub):
        with trio.CancelScope() as scope:
            async with aclosing(model.astream(HELLO)) as chunks:
                async for chunk in chunks:
                    assert isinstance(chunk, TextDelta)
                    got.append(chunk.text)
                    scope.cancel()
        assert scope.cancelled_caught
        assert got == ["a"]
        await stub.wait_until(lambda stub: stub.disconnects == 1 and stub.connections == 0)
        assert (await model.agenerate(HELLO)).message.content == "next"


async def test_leaving_a_stream_early_ends_the_request_at_once() -> None:
    async with serving(Chunks([{"content": "a"}, {"content": "b"}, trio.Event()])) as (model, stub):
        async with aclosing(model.astream(HELLO)) as chunks:
            async for _ in chunks:
                break
        await stub.wait_until(lambda stub: stub.disconnects == 1 and stub.connections == 0)


async def test_calls_use_their_connection_again() -> None:
    chunked = Chunks([{"content": "a"}])
    async with serving("a", chunked, "b", chunked, Status(500), "c", stream=True) as (model, stub):
        for _ in range(4):
            await model.agenerate(HELLO)
        with pytest.raises(ModelError):
            await model.agenerate(HELLO)
        await model.agenerate(HELLO)
        assert stub.connections == 1
        assert stub.accepted == 1


async def test_many_calls_at_once() -> None:
    replies: list[ModelReply] = []
    async with serving(*["hi"] * 30) as (model, _):

        async def one() -> None:
            replies.append(await model.agenerate(HELLO))

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(one)
    assert len(replies) == 30


async def test_the_model_can_be_used_after_it_was_closed() -> None:
    async with serving("a", "b") as (model, stub):
        await model.agenerate(HELLO)
        await model.aclose()
        await stub.wait_until(lambda stub: stub.connections == 0)
        assert (await model.agenerate(HELLO)).message.content == "b"


def test_one_model_serves_one_trio_run_after_the_other() -> None:
    model = OpenAIModel("m", base_url="http://127.0.0.1:1/v1", api_key="k")

    async def run() -> None:
        with pytest.raises(ModelError, match="no connection"):
            await model.agenerate(HELLO)

    trio.run(run)
    trio.run(run)


async def test_settings_go_out_with_each_call() -> None:
    settings = ModelConfig(temperature=0.5, max_tokens=9)
    async with serving("a", settings=settings) as (model, stub):
        await model.agenerate(HELLO, [ADD], ModelConfig(temperature=0.0, tool_choice="required"))
        body = stub.requests[0].body
        assert (body["temperature"], body["max_tokens"], body["tool_choice"]) == (0.0, 9, "required")


async def test_a_given_dialect_is_spoken() -> None:
    options = OpenAIOptions(dialect=Dialect(max_tokens_field="max_completion_tokens"), headers={"x-team": "blue"})
    async with (
        strict_stub(["a"]) as stub,
        OpenAIModel("m", base_url=stub.url, api_key="k", settings=ModelConfig(max_tokens=9), options=options) as model,
    ):
        await model.agenerate(HELLO)
        assert stub.requests[0].body["max_completion_tokens"] == 9
        assert stub.requests[0].headers["x-team"] == "blue"


async def test_a_missing_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelError, match="give OpenAIModel an api_key") as caught:
        await OpenAIModel("m").agenerate(HELLO)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("key", "headers"), [("kéy", {}), ("key", {"x-team": "Österreich"})], ids=["the key", "a header"]
)
async def test_what_no_header_can_carry_is_told_without_it(key: str, headers: dict[str, str]) -> None:
    options = OpenAIOptions(headers=headers)
    async with OpenAIModel("m", base_url="http://127.0.0.1:1/v1", api_key=key, options=options) as model:
        with pytest.raises(ModelError, match="cannot carry") as caught:
            await model.agenerate(HELLO)
    assert (caught.value.retryable, caught.value.__cause__) == (False, None)


@pytest.mark.parametrize("address", ["localhost:11434/v1", "http://[bad", "http://", "", "ftp://user:pass@host/v1"])
def test_an_address_that_is_none_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(DefinitionError, match="base_url") as caught:
        OpenAIModel("m", base_url=address)
    assert "pass" not in str(caught.value)


def test_identity_and_repr_hold_no_secret() -> None:
    model = OpenAIModel(
        "m",
        base_url="https://user:pass@example.com:8443/v1?key=abc",
        api_key="sk-secret",
        settings=ModelConfig(temperature=0.5),
        options=OpenAIOptions(headers={"x-key": "hidden"}),
    )
    assert identity(model) == {
        "provider": "openai-chat",
        "model": "m",
        "base_url": "https://example.com:8443/v1",
        "settings": {"temperature": 0.5},
    }
    shown = repr(model) + repr(OpenAIOptions(headers={"x-key": "hidden"}))
    assert not any(secret in shown for secret in ("sk-secret", "pass", "abc", "hidden"))
    as_model: Model = model
    assert isinstance(as_model, StreamingModel)


def test_importing_the_adapter_does_not_import_the_sdk() -> None:
    code = "import sys, trouper_adapters.openai; sys.exit(any(m in sys.modules for m in ('openai', 'pydantic')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_left_to_the_garbage_collector() -> None:
    """A process of its own, because warnings of collected generators come late and go to stderr."""
    code = """
import gc, sys, trio
from trouper.core.conversation import Human
from trouper.testing import Chunks, strict_stub
from trouper_adapters.openai import OpenAIModel
from contextlib import aclosing

async def main():
    async with strict_stub(lambda _: Chunks([{"content": "a"}] * 3)) as stub:
        async with OpenAIModel("m", base_url=stub.url, api_key="k") as model:
            for leave_after in (1, 2, 99):
                async with aclosing(model.astream([Human("1", "hi")])) as chunks:
                    n = 0
                    async for _ in chunks:
                        n += 1
                        if n == leave_after:
                            break
                gc.collect()
            await model.agenerate([Human("1", "hi")])
    gc.collect()
trio.run(main)
gc.collect()
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
