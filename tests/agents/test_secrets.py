"""Secrets are given to a call and appear nowhere else: not in the journal, the log, the wire, results or errors."""

from __future__ import annotations

import io
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.agents.office import AnyTool, Office, asks, office, told, until

from trouper import RunFailed, ToolContext, ToolError, TransientError, tool
from trouper.core.conversation import Value
from trouper.testing import Status
from trouper.testing._answers import Answer

SECRET = 'pa55 "wörd"/\\42'
SPELLINGS = (SECRET, repr(SECRET)[1:-1], quote(SECRET, safe=""), 'pa55 \\"w\\u00f6rd', "wörd", "w\\xf6rd", "w%C3%B6rd")

seen: list[str] = []


def uses(secret: str, what: str) -> Value:
    """What a careless tool does with its secret."""
    seen.append(secret)
    match what:
        case "text":
            return f"logged in with {secret}"
        case "data":
            return {"header": [f"Bearer {secret}"], secret: 1, "url": f"https://crm/?t={quote(secret, safe='')}"}
        case "error":
            raise ToolError(f"401 for {secret}")
        case "exception":
            raise ValueError(f"bad credentials {secret!r}")
        case "chain":
            try:
                raise KeyError(secret)
            except KeyError as error:
                raise RuntimeError(f"while asking with {secret}") from error
        case "group":
            raise ExceptionGroup(f"with {secret}", [ValueError(secret), OSError(f"no {secret}")])
        case "transient":
            raise TransientError(f"busy, {secret}")
        case _:
            raise AssertionError(what)


@tool(effect="read_only", secrets={"token": "crm/api-token"}, attempts=1)
async def in_loop(what: str, *, token: str, ctx: ToolContext) -> Value:
    """Ask the CRM."""
    await ctx.progress({"with": token})
    return uses(token, what)


@tool(effect="read_only", secrets={"token": "crm/api-token"}, attempts=1)
def in_thread(what: str, token: str) -> Value:
    """Ask the CRM."""
    return uses(token, what)


@tool(secrets={"token": "crm/api-token"})
async def in_doubt(what: str, token: str) -> Value:
    """Ask the CRM."""
    return uses(token, what)


def all_bytes(desk: Office) -> bytes:
    """Whatever the office left on the disk, and sent."""
    files = [path.read_bytes() for path in desk.path.parent.iterdir()]
    return b"\n".join([*files, *(request.raw for request in desk.stub.requests)])


def check_absent(said: bytes) -> None:
    for spelling in SPELLINGS:
        assert spelling.encode() not in said
    for part in (b"pa55", "wörd".encode()):
        assert part not in said


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def _logging(log: io.StringIO) -> Iterator[None]:
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    root.addHandler(handler)
    before = root.level
    root.setLevel(logging.DEBUG)
    yield
    root.setLevel(before)
    root.removeHandler(handler)


@pytest.mark.parametrize("made", [in_loop, in_thread], ids=["in the loop", "in a thread"])
@pytest.mark.parametrize("what", ["text", "data", "error", "exception", "chain", "group", "transient"])
async def test_a_secret_is_nowhere_whatever_the_tool_does_with_it(
    tmp_path: Path, made: AnyTool, what: str, log: io.StringIO
) -> None:
    seen.clear()
    script: list[Answer] = [asks((made.name, {"what": what})), "Done."]
    async with office(tmp_path, script, [made], secrets={"crm/api-token": SECRET}) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Ask the CRM.")
            result = await run.wait()
            events = repr(await run.events())
            tree = repr(runtime.tree())
            looked = "\n".join([repr(result), events, tree, repr(runtime), repr(await run.state())])
            open_journal = all_bytes(desk)
        assert seen == [SECRET]
        (answer,) = told(desk.stub.requests[1].messages)
        assert "[secret]" in str(answer)
        assert "token" not in str(desk.stub.requests[0].body["tools"])
        check_absent(looked.encode("utf-8", "surrogatepass"))
        check_absent(log.getvalue().encode())
        check_absent(open_journal)
        check_absent(all_bytes(desk))


async def test_a_secret_is_nowhere_in_a_doubt(tmp_path: Path, log: io.StringIO) -> None:
    async with office(
        tmp_path, [asks(("in_doubt", {"what": "chain"})), "Done."], [in_doubt], secrets={"crm/api-token": SECRET}
    ) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Ask the CRM.")
            state = await until(runtime, run.id, "in_doubt")
            (doubt,) = state.in_doubt
            assert "[secret]" in doubt.text
            await runtime.resolve(f"{run.id}/0.0", "not_applied", by="maria")
            await run.wait()
        check_absent(all_bytes(desk))
        check_absent(log.getvalue().encode())


async def test_a_model_that_sends_the_secrets_parameter_is_refused(tmp_path: Path) -> None:
    seen.clear()
    script: list[Answer] = [asks(("in_loop", {"what": "text", "token": "guess"})), "Done."]
    async with office(tmp_path, script, [in_loop], secrets={"crm/api-token": SECRET}) as desk:
        async with desk.open() as runtime:
            await (await runtime.submit("desk", "Ask.")).wait()
        assert seen == []
        assert "token: " in str(told(desk.stub.requests[1].messages)[0])


@pytest.mark.parametrize("known", [{}, {"crm/api-token": None}], ids=["none", "of a variable that is not set"])
async def test_without_its_secret_a_tool_is_not_run(tmp_path: Path, known: dict[str, Any]) -> None:
    seen.clear()
    script: list[Answer] = [asks(("in_doubt", {"what": "text"})), "Done."]
    async with office(tmp_path, script, [in_doubt], secrets=known) as desk:
        async with desk.open() as runtime:
            await (await runtime.submit("desk", "Ask.")).wait()
        assert seen == []
        assert told(desk.stub.requests[1].messages) == ["secret crm/api-token is not available; nothing was run"]


async def test_the_models_key_is_nowhere_either(tmp_path: Path, log: io.StringIO) -> None:
    refusal = Status(401, {"error": {"message": "Incorrect API key provided: sk-test"}})
    async with office(tmp_path, [refusal]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Hello?")
            with pytest.raises(RunFailed, match="401") as caught:
                await run.wait()
            said = "".join(traceback.format_exception(caught.value)) + repr(await run.state())
        assert "sk-test" not in said
        assert b"sk-test" not in all_bytes(desk)
        assert "sk-test" not in log.getvalue()
