"""What is more than text is carried, not lost: images, sounds, reasoning, fields that only a provider understands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from tests.agents.office import Office, asks, office, pending

from trouper import AI, Audio, File, Human, Image, RunResult
from trouper.core.conversation import Message, Value
from trouper.errors import InvalidValue
from trouper.testing import Reply, tc
from trouper.testing._answers import Answer
from trouper_journal import Journal

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))

# What some providers send and want back unchanged: numbers that look alike, nested nulls, odd texts, the order of keys.
FIELDS: dict[str, Value] = {
    "reasoning_content": "First the\u2028ticket.",
    "reasoning_details": [
        {"type": "reasoning.encrypted", "data": "gAAAAB" + "x" * 40_000, "id": None, "index": 0},
        {"z": 1, "a": 1.0, "big": 2**60, "none": [], "deep": {"y": {"x": "\ufeff\u200d"}}},
    ],
    "extra_content": {"google": {"thought_signature": "c2ln/+=="}},
}


def sent(desk: Office, number: int = -1) -> list[dict[str, Value]]:
    """The messages of a request, as they were on the wire."""
    body = json.loads(desk.stub.requests[number].raw)
    return cast("list[dict[str, Value]]", body["messages"])


def wire(value: Value) -> str:
    """JSON with the keys in their order: equal only where the bytes are."""
    return json.dumps(value, ensure_ascii=True)


async def test_images_sounds_and_files_reach_the_model_whole_also_after_a_restart(tmp_path: Path) -> None:
    asked = Human("", ["What is this?", Image(PNG, detail="low"), Audio(b"RIFF", "wav"), File(b"%PDF", "a.pdf")])
    async with office(tmp_path, [asks(("send_email", {"to": "a"})), "A cat."], lambda w: [w.mailer()]) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", [asked])
            waiting = await pending(runtime)
        async with desk.open() as runtime:
            await runtime.approve(waiting[0].action, by="maria")
            result = await runtime.run(run.id).wait()
        first, second = (wire(sent(desk, number)[1]) for number in (0, 1))
        assert first == second
        content = cast("list[dict[str, Value]]", sent(desk)[1]["content"])
        assert [part["type"] for part in content] == ["text", "image_url", "input_audio", "file"]
        shown = cast("dict[str, str]", content[1]["image_url"])
        assert shown["url"].startswith("data:image/png;base64,iVBORw0KGgo")
        assert shown["detail"] == "low"
        (human, *_) = result.messages
        assert human.content == asked.content


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_fields_that_only_the_provider_understands_come_back_byte_for_byte(
    tmp_path: Path, *, stream: bool
) -> None:
    signed = {**tc("x", "send_email", '{"to": "a"}'), "extra_content": {"google": {"thought_signature": "YQ=="}}}
    script: list[Answer] = [Reply("I see.", [signed], fields=FIELDS), "Done."]
    async with office(tmp_path, script, lambda w: [w.mailer()], stream=stream) as desk:
        async with desk.open() as runtime:
            run = await runtime.submit("desk", "Go.")
            waiting = await pending(runtime)
        async with desk.open() as runtime:
            await runtime.approve(waiting[0].action, by="maria")
            result = await runtime.run(run.id).wait()
        (said,) = [message for message in sent(desk) if message["role"] == "assistant"]
        assert {name: wire(said[name]) for name in FIELDS} == {name: wire(value) for name, value in FIELDS.items()}
        (called,) = cast("list[dict[str, Value]]", said["tool_calls"])
        assert called["extra_content"] == signed["extra_content"]
        reply = next(message for message in result.messages if isinstance(message, AI))
        assert (reply.reasoning, reply.content) == (FIELDS["reasoning_content"], "I see.")


async def test_a_spoken_reply_is_kept_whole_and_goes_back_as_a_reference(tmp_path: Path) -> None:
    audio: Value = {"id": "audio_1", "data": "UklGRg==", "expires_at": 1, "transcript": "Hello"}
    script: list[Answer] = [Reply(None, [tc("x", "add", '{"n": 1}')], fields={"audio": audio}), "Done."]
    async with office(tmp_path, script, lambda w: [w.adder()]) as desk, desk.open() as runtime:
        result = await (await runtime.submit("desk", "Speak.")).wait()
        reply = next(message for message in result.messages if isinstance(message, AI))
        assert reply.extra["audio"] == audio
        (said,) = [message for message in sent(desk) if message["role"] == "assistant"]
        assert said["audio"] == {"id": "audio_1"}


async def test_large_contents_are_stored_once_per_run(tmp_path: Path) -> None:
    picture = Image(PNG + bytes(200_000))
    turns = [asks(("add", {"n": number})) for number in range(5)]
    async with office(tmp_path, [*turns, "A cat."], lambda w: [w.adder()]) as desk:
        async with desk.open() as runtime:
            result: RunResult = await (await runtime.submit("desk", [Human("", [picture, picture])])).wait()
            assert result.output == "A cat."
        async with desk.journal() as journal:
            stored = await _bytes(journal)
        # Five more requests carried it; the journal holds its two parts in the one message that has them.
        assert stored < 3 * len(str(picture.part()))


async def _bytes(journal: Journal) -> int:
    return sum([len(record.content) + sum(map(len, record.values.values())) async for record in journal.read_all()])


async def test_what_is_no_part_is_refused_with_its_place(tmp_path: Path) -> None:
    message: list[Message] = [Human("", ["Look.", 7])]  # type: ignore[list-item]
    async with office(tmp_path, [], [], done=False) as desk, desk.open() as runtime:
        with pytest.raises(InvalidValue, match=r"input\[0\]\.content\[1\]"):
            await runtime.submit("desk", message)
