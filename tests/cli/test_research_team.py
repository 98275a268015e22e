"""examples/research_team.py: researchers side by side under one budget, killed, interrupted, and against a server."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import trio
from tests.cli.program import ROOT, Started, called, environment, objects, ok_called

from trouper.testing import Reply, strict_stub, tc
from trouper.testing._answers import Answer
from trouper_journal import Value

EXAMPLE = ROOT / "examples" / "research_team.py"
TOPICS = ("otters", "herons", "beavers")


def example(folder: Path, *arguments: str) -> Started:
    return Started(sys.executable, EXAMPLE, *arguments, cwd=folder)


def whole(folder: Path, *arguments: str) -> list[str]:
    """What it prints when it comes to its end."""
    with example(folder, "--pace", "0", *arguments) as process:
        out, err = process.process.communicate(timeout=60)
    assert (process.process.returncode, err) == (0, "")
    return out.splitlines()


def rows(folder: Path) -> list[dict[str, object]]:
    return objects(ok_called("runs", folder / "research.db", "--all", "--json"))


def test_killed_and_interrupted_while_they_search_it_goes_on_and_asks_nothing_again(tmp_path: Path) -> None:
    for end in (signal.SIGKILL, signal.SIGINT):
        with example(tmp_path, "--pace", "1000") as process:
            said: list[str] = []
            while sum("calls search" in line for line in said) < len(TOPICS):
                said += process.read_until(process.out, "calls search")
            process.process.send_signal(end)
            assert process.end()[0] == (130 if end == signal.SIGINT else -end)
    out = whole(tmp_path)
    assert out[0].endswith(", asked before")
    # It tells from the beginning: each call once, though two processes had begun it.
    for number, topic in enumerate(TOPICS):
        assert out.count(f'lead calls research({{"input": {{"topic": "{topic}"}}}})') == 1
        assert out.count(f'researcher ~0.{number} calls search({{"topic": "{topic}"}})') == 1
    assert "Life at the river, in 3 notes" in out
    assert "- Herons fish at dawn." in out
    # Lead and researchers have each asked twice, in three lives.
    assert out[-1] == "all together: 8 model calls, 120 tokens"
    assert [row["label"] for row in rows(tmp_path)] == ["succeeded"] * 4
    assert called("replay", tmp_path / "research.db").returncode == 0
    # And what is over is told again, and not done again; runs side by side have no order between them.
    again = whole(tmp_path)
    assert sorted(again) == sorted(out)
    assert again[-12:] == out[-12:]


def test_one_budget_holds_for_all_of_them(tmp_path: Path) -> None:
    out = whole(tmp_path, "--calls", "6")
    # The lead's first call, and five of the six that its researchers want; then the one that was kept for an answer.
    assert out[-1] == "all together: 7 model calls, 105 tokens"
    assert "lead may not go on: 6 of 6 model_calls are used" in out
    assert sum(line.endswith("may not go on: 6 of 6 model_calls are used") for line in out) == 2
    assert "Life at the river, in 2 notes" in out
    (notes,) = [line for line in out if line.startswith("notes on ")]
    assert len(notes.split(", ")) == 2
    assert sorted(str(row["label"]) for row in rows(tmp_path)) == ["failed"] + ["succeeded"] * 3


def leaked(folder: Path, secret: bytes) -> list[Path]:
    return [file for file in folder.iterdir() if secret in file.read_bytes()]


def answer(body: dict[str, Value]) -> Answer:
    """What the model of both says to a request."""
    request = json.loads(json.dumps(body))
    (name,) = [each["function"]["name"] for each in request["tools"]]
    asked, *rest = [each["content"] for each in request["messages"] if each["role"] in {"user", "tool"}]
    match name, rest:
        case "research", []:
            topics = ("otters", "herons")
            return Reply(
                calls=[tc(f"c{topic}", "research", f'{{"input": {{"topic": "{topic}"}}}}') for topic in topics]
            )
        case "search", []:
            return Reply(calls=[tc("call_1", "search", asked)])
    found = [json.loads(each) for each in rest]
    if name == "search":
        (pages,) = found
        texts, sources = ([page[key] for page in pages] for key in ("text", "source"))
        return json.dumps({"topic": json.loads(asked)["topic"], "findings": texts, "sources": sources})
    texts, sources = ([each for note in found for each in note[key]] for key in ("findings", "sources"))
    return json.dumps({"title": "Two animals", "findings": texts, "sources": sources})


async def test_with_a_key_it_talks_to_a_real_server(tmp_path: Path) -> None:
    async with strict_stub(answer) as stub:
        keys = environment(OPENAI_BASE_URL=stub.url, OPENAI_API_KEY="sk-example-123")
        command = [sys.executable, str(EXAMPLE), "--model", "some-model", "--pace", "0"]
        done = await trio.run_process(command, cwd=tmp_path, env=keys, capture_stdout=True, capture_stderr=True)
        assert done.stderr == b""
        assert stub.violations == []
        # All of them are told what their answers must be, beside their tools.
        formats = [request.body["response_format"] for request in stub.requests]
    assert len(formats) == 6
    assert all(isinstance(each, dict) and each["type"] == "json_schema" for each in formats)
    out = done.stdout.decode().splitlines()
    assert out[-10:-5] == [
        "Two animals",
        "- Otters sleep afloat and hold hands.",
        "- Herons stand still for an hour.",
        "- Herons fish at dawn.",
        "(otters.txt, herons.txt, fishers.txt)",
    ]
    assert out[-1] == "all together: 6 model calls, 90 tokens"
    assert not leaked(tmp_path, b"sk-example-123")
