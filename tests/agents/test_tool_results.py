"""What tools return: parts, artifacts, and results that are too long; the same again after a restart."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from tests.agents.office import Office, asks, happened, of, office, pending, told

from trouper import (
    AI,
    Agent,
    Artifact,
    Audio,
    File,
    Found,
    Human,
    Image,
    Message,
    Runtime,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    tool,
)
from trouper.core.chat_request import Dialect, wire_messages
from trouper.core.events import ActionReceipted
from trouper.errors import InvalidValue
from trouper.testing import ScriptedModel, call
from trouper.testing._answers import Answer
from trouper.tools import Tool
from trouper.tools._redact import NO_SECRETS
from trouper.tools._tool_result import returned

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 10
PNG_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
ROWS = [{"n": n, "name": f"row {n}"} for n in range(3000)]


@attrs.frozen
class Row:
    n: int
    name: str


@tool(effect="read_only")
def chart(kind: str) -> object:
    """Draw a chart."""
    match kind:
        case "bare":
            return Image(PNG)
        case "several":
            return ["Sales go up.", Image(PNG), Row(1, "a"), Image(url="https://example.org/a.jpg", detail="low")]
        case "result":
            return ToolResult((Image(PNG), "a chart"), artifact={"rows": [Row(1, "a")], "raw": b"\x00\x01"})
        case "sound":
            return [Audio(b"RIFF", "wav"), File(b"%PDF", "report.pdf")]
        case _:
            return {"inside": Image(PNG)}


@tool(effect="read_only")
def rows() -> ToolResult:
    """Read all rows."""
    return ToolResult("3000 rows", artifact=ROWS)


def long(limit: int | None = 100, *, whole: object = "x" * 250) -> list[Tool[..., object]]:
    @tool(effect="read_only", max_result=limit)
    def read() -> object:
        """Read."""
        return whole

    return [read]


def messages(desk: Office, request: int = -1) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", desk.stub.requests[request].messages)


async def test_an_image_goes_to_the_model_behind_the_results_of_its_reply(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("chart", {"kind": "several"}), ("chart", {"kind": "bare"})), "Nice."]
    async with office(tmp_path, script, [chart]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "draw")
            result = await run.wait()
            image = {"type": "image_url", "image_url": {"url": PNG_URL}}
            assert result.messages[2].content == (
                {"type": "text", "text": "Sales go up."},
                image,
                {"type": "text", "text": '{"n":1,"name":"a"}'},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.jpg", "detail": "low"}},
            )
            assert result.messages[3].content == (image,)
        sent = messages(desk)
        assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
        assert sent[3]["content"] == (
            'Sales go up.\n[image 1: see the next message]\n{"n":1,"name":"a"}\n[image 2: see the next message]'
        )
        assert sent[4]["content"] == "[image 3: see the next message]"
        assert [part["type"] for part in sent[5]["content"]] == ["text", "image_url"] * 3
        assert sent[5]["content"][5] == image
        # Another life reads the same words from the journal.
        async with desk.open() as runtime:
            again = await runtime.run(run.id).state()
            assert again.messages == result.messages
            assert wire_messages(again.messages) == [*sent[1:], {"role": "assistant", "content": "Nice."}]


def test_dialects_for_providers_that_take_more_or_less() -> None:
    image = Image(PNG).part()
    history: list[Message] = [AI("a", None, (ToolCall("c", "chart", "{}"),)), ToolMessage("t", "c", "chart", (image,))]
    (_, kept) = wire_messages(history, tool_media="tool")
    assert kept["content"] == [dict(image)]
    (_, named) = wire_messages(history, tool_media="text")
    assert named["content"] == "[image 1, which cannot be shown]"
    assert Dialect().tool_media == "user"


async def test_sounds_and_files_are_parts_too_and_media_inside_values_is_refused(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("chart", {"kind": "sound"})), asks(("chart", {"kind": "inside"})), "Done."]
    async with office(tmp_path, script, [chart]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "draw")
        result = await run.wait()
        assert result.messages[2].content == (
            {"type": "input_audio", "input_audio": {"data": base64.b64encode(b"RIFF").decode(), "format": "wav"}},
            {
                "type": "file",
                "file": {
                    "filename": "report.pdf",
                    "file_data": f"data:application/pdf;base64,{base64.b64encode(b'%PDF').decode()}",
                },
            },
        )
        assert "inside: Image stands inside a value; return it alone, or in a list" in str(result.messages[4].content)


@pytest.mark.parametrize("inside", [lambda it: it, lambda it: [it], lambda it: {"key": it}])
def test_what_is_not_shown_does_not_get_into_what_is(inside: Callable[[object], object]) -> None:
    with pytest.raises(InvalidValue, match="ToolResult stands inside a value"):
        returned(ToolResult(inside(ToolResult("shown", artifact="not shown"))), NO_SECRETS)


async def test_an_artifact_is_kept_and_not_shown(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("chart", {"kind": "result"}), ("rows", {})), asks(("rows", {})), "Done."]
    async with office(tmp_path, script, [chart, rows]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "draw")
            await run.wait()
            assert "row 2999" not in str([request.raw for request in desk.stub.requests])
        async with desk.open() as runtime:
            found = await runtime.run(run.id).artifacts()
            assert found == [
                Artifact(f"{run.id}/0.0", "chart", {"rows": [{"n": 1, "name": "a"}], "raw": b"\x00\x01"}),
                Artifact(f"{run.id}/0.1", "rows", ROWS),  # type: ignore[arg-type]  # a journal value
                Artifact(f"{run.id}/1.0", "rows", ROWS),  # type: ignore[arg-type]  # a journal value
            ]
        # Large and equal values are stored once.
        one = len(str(ROWS))
        assert desk.path.stat().st_size < 2 * one + 200_000


@pytest.mark.parametrize(("whole", "begins"), [("x" * 250, "x" * 100), ({"text": "y" * 239}, '{"text":"' + "y" * 91)])
async def test_a_long_result_is_cut_for_the_model_and_kept_whole(tmp_path: Path, whole: object, begins: str) -> None:
    async with office(tmp_path, [asks(("read", {})), "Done."], long(whole=whole)) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "read")
            await run.wait()
            (receipt,) = await of(run, ActionReceipted)
            assert receipt.value == whole
            assert receipt.cut == 150
        said = f"{begins}\n[cut: 150 of 250 characters are not shown]"
        assert told(desk.stub.requests[-1].messages) == [said]
        async with desk.open() as runtime:
            assert (await runtime.run(run.id).state()).messages[2].content == said


async def test_texts_of_parts_are_cut_and_images_are_not(tmp_path: Path) -> None:
    whole = ["a" * 60, Image(PNG), "b" * 60, "c"]
    async with office(tmp_path, [asks(("read", {})), "Done."], long(whole=whole)) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "read")
        result = await run.wait()
        content = cast("tuple[dict[str, Any], ...]", result.messages[2].content)
        assert [part.get("text") for part in content] == [
            "a" * 60,
            None,
            "b" * 40 + "\n[cut: 20 of 60 characters are not shown]",
            "\n[cut: 1 of 1 characters are not shown]",
        ]
        (receipt,) = await of(run, ActionReceipted)
        assert receipt.cut == 21
        assert isinstance(receipt.value, list)
        assert receipt.value[2] == {"type": "text", "text": "b" * 60}


@pytest.mark.parametrize(("limit", "size"), [(None, 200_000), (100, 100)])
async def test_what_fits_is_not_cut(tmp_path: Path, limit: int | None, size: int) -> None:
    async with (
        office(tmp_path, [asks(("read", {})), "Done."], long(limit, whole="x" * size)) as desk,
        desk.open() as runtime,
    ):
        run = await runtime.submit("desk", "read")
        await run.wait()
        (receipt,) = await of(run, ActionReceipted)
        assert (receipt.cut, receipt.value, receipt.text) == (0, None, "x" * size)
    assert tool(lambda: "", name="read").options.max_result == 50_000


async def test_secrets_are_masked_in_parts_and_artifacts(tmp_path: Path) -> None:
    @tool(effect="read_only", secrets={"key": "crm/key"})
    def export(key: str) -> ToolResult:
        """Export."""
        media = [Image(PNG + key.encode()), Image(url=f"https://example.org/?{key}"), key]
        return ToolResult(media, artifact={"sent": key, "bytes": key.encode()})

    secrets = {"crm/key": "hunter2hunter2"}
    async with office(tmp_path, [asks(("export", {})), "Done."], [export], secrets=secrets) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "export")
            result = await run.wait()
            assert (await run.artifacts())[0].value == {"sent": "[secret]", "bytes": b"[secret]"}
            image = cast("tuple[dict[str, Any], ...]", result.messages[2].content)[0]["image_url"]["url"]
            assert base64.b64decode(image.partition(",")[2]) == PNG + b"[secret]"
            assert "hunter2" not in str(result.messages)
        assert b"hunter2" not in desk.path.read_bytes()


async def test_a_query_finds_parts_and_artifacts_too(tmp_path: Path) -> None:
    def look(*, ctx: ToolContext) -> Found:
        return Found(ToolResult([Image(PNG)], artifact=5))

    @tool(effect="queryable_write", query=look)
    def draw() -> str:
        """Draw."""
        raise OSError("lost on the way")

    async with office(tmp_path, [asks(("draw", {})), "Done."], [draw]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "draw")
        result = await run.wait()
        assert result.messages[2].content == (Image(PNG).part(),)
        assert await run.artifacts() == [Artifact(f"{run.id}/0.0", "draw", 5)]


async def test_an_edited_call_says_so_before_its_parts(tmp_path: Path) -> None:
    gated = tool(chart.fn, name="chart", effect="read_only", requires_approval=True)
    script: list[Answer] = [asks(("chart", {"kind": "several"})), "Done."]
    async with office(tmp_path, script, [gated]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "draw")
        (waiting,) = await pending(runtime)
        await runtime.approve(waiting.action, by="maria", arguments={"kind": "bare"})
        content = cast("tuple[dict[str, Any], ...]", (await run.wait()).messages[2].content)
        assert content[0]["text"] == '[maria changed the arguments; what ran: {"kind":"bare"}]\n'
        assert content[1] == Image(PNG).part()


@pytest.mark.parametrize(
    ("kind", "given"),
    [(Image, {}), (Image, {"data": PNG, "url": "https://a"}), (Image, {"data": b"?"}), (Audio, {"data": b""})],
)
def test_media_that_cannot_be_meant_is_refused(kind: type, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"image: give|image: its type|audio: give its bytes"):
        kind(**given)


async def test_media_is_input_too() -> None:
    with ScriptedModel([call("rows"), "A chart."]) as model:
        agent = Agent("desk", tools=[rows], model=model)
        async with Runtime.open(None, agents=[agent]) as runtime:
            asked = Human("", [{"type": "text", "text": "What is it?"}, Image(PNG).part()])
            run = await runtime.submit("desk", [asked])
            assert (await run.wait()).output == "A chart."
            assert model.requests[0].messages[0].content == asked.content
            await happened(runtime, run, ActionReceipted)


async def test_a_sub_agents_answer_is_cut_like_any_result(tmp_path: Path) -> None:
    clerk = Agent("clerk", model=ScriptedModel(["x" * 60_000], by_turn=True))
    top = Agent("top", tools=[clerk.as_tool()], model=ScriptedModel([call("clerk", input="go"), "Done."], by_turn=True))
    async with office(tmp_path, done=False) as desk, desk.open(top) as runtime:
        run = await runtime.submit("top", "go")
        said = str((await run.wait()).messages[2].content)
        assert said == "x" * 50_000 + "\n[cut: 10,000 of 60,000 characters are not shown]"
        assert (await runtime.run(f"{run.id}~0.0").result()).output == "x" * 60_000
