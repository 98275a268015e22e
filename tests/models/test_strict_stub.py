"""The strict stub refuses what it says that it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from trouper.core.conversation import AI, Human, ToolCall, ToolMessage
from trouper.testing import Reply, Status, StrictStub, strict_stub, violations
from trouper_adapters.openai import OpenAIModel

USER = {"role": "user", "content": "hi"}


def _tc(call_id: Any = "x", name: Any = "add", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _asks(*calls: Any, content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def _answers(call_id: Any = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "1"}


def _body(*messages: Any, **more: Any) -> bytes:
    return json.dumps({"model": "m", "messages": list(messages), **more}).encode()


_TOOL: dict[str, Any] = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
_BAD_TOOL: dict[str, Any] = {"type": "function", "function": {"name": "add"}}

_IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def _strict(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": "add", "strict": True, "parameters": schema}}


VALID = [
    _body(USER, tools=[_TOOL], tool_choice={"type": "function", "function": {"name": "add"}}),
    _body(USER, tools=[_strict({"a": {"type": ["integer", "null"]}}, ["a"])]),
    _body(USER, _asks(_tc()), {**_answers(), "content": [{"type": "text", "text": "hi"}]}),
    _body({"role": "user", "content": [_IMAGE]}),
    _body(USER),
    _body({"role": "system", "content": "s"}, USER, {"role": "assistant", "content": "a"}, USER),
    _body(USER, _asks(_tc("x"), _tc("y")), _answers("y"), _answers("x"), USER),
    # An id may come again in a later message.
    _body(USER, _asks(_tc("x")), _answers("x"), _asks(_tc("x")), _answers("x")),
    _body(USER, tools=[_TOOL], tool_choice="auto"),
    _body({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
    '{"model":"m","messages":[{"role":"user","content":"ü\u2028"}]}'.encode(),
]

INVALID = [
    (_body(USER, _asks(_tc("x"))), "at the end have no tool message"),
    (_body(USER, _asks(_tc("x")), USER), "have no tool message before it"),
    (_body(USER, _asks(_tc("x"), _tc("y")), _answers("x"), USER), "the calls y have no tool message"),
    (_body(USER, _asks(_tc("x")), _answers("x"), _answers("x")), "no call that waits"),
    (_body(USER, _asks(_tc("x")), USER, _answers("x")), "no call that waits"),
    (_body(USER, _answers("x")), "no call that waits"),
    (_body(USER, _asks(_tc("x"), _tc("x")), _answers("x"), _answers("x")), "used twice in one message"),
    (_body(USER, _asks(_tc("")), _answers("")), "does not match"),
    (_body(USER, _asks(_tc(None)), _answers(None)), "does not match"),
    (_body(USER, _asks(_tc("a.b")), _answers("a.b")), "does not match"),
    (_body(USER, _asks(_tc(arguments="")), _answers()), "not the text of a JSON object"),
    (_body(USER, _asks(_tc(arguments="[1]")), _answers()), "not the text of a JSON object"),
    (_body(USER, _asks(_tc(arguments='{"n":NaN}')), _answers()), "not the text of a JSON object"),
    (_body(USER, _asks(_tc(arguments='{"a":"hal')), _answers()), "not the text of a JSON object"),
    (_body(USER, _asks(_tc(arguments='{"a":"\\ud800"}')), _answers()), "not the text of a JSON object"),
    (_body(USER, _asks(_tc(arguments={"n": 1})), _answers()), "not the text of a JSON object"),
    (_body(USER, _asks(_tc(name="a b")), _answers()), "function.name"),
    (_body(USER, _asks(_tc(name="a" * 65)), _answers()), "function.name"),
    (_body(USER, _asks(_tc(name="")), _answers()), "function.name"),
    (_body(USER, _asks(_tc(name="add\n")), _answers()), "function.name"),
    (_body(USER, _asks({"id": "x"}), _answers()), "not a call of a function"),
    (_body(USER, {"role": "assistant", "content": None}), "neither text nor a list"),
    (_body(USER, {"role": "assistant", "content": "a", "tool_calls": []}), "not a list of calls"),
    (_body({"role": "user", "content": None}), "neither text nor a list"),
    (_body({"role": "robot", "content": "x"}), "one of the roles"),
    (_body({"role": "user", "content": "\ud800"}), "lone surrogate"),
    (_body(), "not a list of messages"),
    (_body(USER, tools=[_TOOL, _TOOL]), "used twice"),
    (_body(USER, tools=[_BAD_TOOL]), "schema of an object"),
    (_body(USER, tools=[]), "not a list of tools"),
    (_body(USER, tool_choice="auto"), "without tools"),
    (_body(USER, tools=[_TOOL], tool_choice="any"), "none of auto, none, required"),
    (
        _body(USER, tools=[_TOOL], tool_choice={"type": "function", "function": {"name": "b"}}),
        "names none of the tools",
    ),
    (_body(USER, _asks(_tc()), {**_answers(), "content": [_IMAGE]}), "only text is allowed"),
    (_body(USER, tools=[_strict({"a": {"type": "integer"}}, [])]), "include every key in properties"),
    (_body(USER, tools=[_strict({"a": {"type": "integer", "default": 1}}, ["a"])]), "'default' is not permitted"),
    (_body(USER, tools=[_strict({"a": {}}, ["a"])]), "must have a 'type' key"),
    (_body(USER, tools=[_strict({"a": {"type": "object", "properties": {}, "required": []}}, ["a"])]), "to be false"),
    (b'{"model":"m","messages":[{"role":"user","content":"hi","x":NaN}]}', "not standard JSON"),
    (b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}', "not UTF-8"),
    (b"[]", "not an object"),
    (b"{", "not standard JSON"),
    (b'{"messages":[{"role":"user","content":"hi"}]}', "model: is missing"),
]


@pytest.mark.parametrize("body", VALID)
def test_valid_requests_pass(body: bytes) -> None:
    assert violations(body) == []


@pytest.mark.parametrize(("body", "told"), INVALID)
def test_invalid_requests_are_named(body: bytes, told: str) -> None:
    assert any(told in each for each in violations(body)), violations(body)


async def _post(stub: StrictStub, body: bytes) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(f"{stub.url}/chat/completions", content=body)


async def test_an_invalid_request_gets_400_and_spoils_the_test() -> None:
    async with strict_stub(["hi"]) as stub:
        response = await _post(stub, _body(USER, _answers("x")))
        assert response.status_code == 400
        assert "no call that waits" in response.json()["error"]["message"]
        assert (await _post(stub, _body(USER))).status_code == 200
        with pytest.raises(AssertionError, match="request 1: messages"):
            stub.assert_clean()


async def test_a_request_beyond_the_script_gets_400_and_spoils_the_test() -> None:
    async with strict_stub(["hi"]) as stub:
        assert (await _post(stub, _body(USER))).status_code == 200
        stub.assert_done()
        assert (await _post(stub, _body(USER))).status_code == 400
        with pytest.raises(AssertionError, match="1 answers only"):
            stub.assert_clean()


async def test_answers_that_nobody_asks_for_spoil_the_test() -> None:
    async with strict_stub(["hi", "again"]) as stub:
        await _post(stub, _body(USER))
        stub.assert_clean()
        with pytest.raises(AssertionError, match="1 of 2"):
            stub.assert_done()


async def test_by_turn_the_answer_follows_the_conversation() -> None:
    async with strict_stub(["first", "second"], by_turn=True) as stub:
        second = _body(USER, {"role": "assistant", "content": "first"}, USER)
        for body, text in ((second, "second"), (second, "second"), (_body(USER), "first")):
            assert (await _post(stub, body)).json()["choices"][0]["message"]["content"] == text
        stub.assert_done()


async def test_a_script_may_be_a_function() -> None:
    async def script(request: dict[str, Any]) -> Reply | Status:
        await trio.lowlevel.checkpoint()
        return Reply(f"{len(request['messages'])} messages") if request["model"] == "m" else Status(404)

    async with strict_stub(script) as stub:
        assert (await _post(stub, _body(USER, USER))).json()["choices"][0]["message"]["content"] == "2 messages"
        assert (await _post(stub, _body(USER).replace(b'"m"', b'"n"'))).status_code == 404
        stub.assert_done()


async def test_other_addresses_are_not_served() -> None:
    async with strict_stub() as stub, httpx.AsyncClient(trust_env=False) as client:
        assert (await client.post(f"{stub.url}/embeddings", content=b"{}")).status_code == 404
        assert stub.requests == []


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with strict_stub():
            raise KeyError


async def test_the_stub_as_a_process_answers_by_turn_and_logs(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    answers = [{"text": None, "calls": [["x", "add", '{"n":1}']]}, "done", {"status": 503}]
    script.write_text(json.dumps(answers))
    command = [sys.executable, "-m", "trouper.testing.stub", "--script", str(script), "--log", str(log)]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, stdout=subprocess.PIPE, check=False))
        try:
            port = int(await process.stdout.receive_some())
            async with OpenAIModel("m", base_url=f"http://127.0.0.1:{port}/v1", api_key="k") as model:
                for _ in range(2):
                    reply = await model.agenerate([Human("1", "go")])
                    assert reply.message.tool_calls[0].arguments == '{"n":1}'
                asked = AI("2", None, (ToolCall("r/0.0", "add", '{"n":1}', "x"),))
                final = await model.agenerate([Human("1", "go"), asked, ToolMessage("3", "r/0.0", "add", "1")])
                assert final.message.content == "done"
        finally:
            process.kill()
    assert [len(json.loads(line)["messages"]) for line in log.read_text().splitlines()] == [1, 1, 3]
