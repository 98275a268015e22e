"""examples/ticket_agent.py: offline, and against a server that speaks the protocol strictly."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.program import ROOT, Started, ok

EXAMPLE = ROOT / "examples" / "ticket_agent.py"
SCRIPT = [
    {"calls": [["call_1", "lookup", '{"ticket": "INC-001"}']]},
    {"calls": [["call_1", "close_ticket", '{"ticket": "INC-001"}']]},
    "It is closed.",
]


def example(folder: Path, *arguments: str) -> Started:
    return Started(sys.executable, EXAMPLE, *arguments, cwd=folder)


def answered(process: Started, answer: str) -> tuple[str, int]:
    """Standard output and exit code, after answering the question."""
    out, err = process.process.communicate(answer, timeout=60)
    assert err == ""
    return out, process.process.returncode


def test_offline_it_asks_and_closes_the_ticket(tmp_path: Path) -> None:
    with example(tmp_path) as process:
        out, code = answered(process, "y\n")
    assert code == 0
    assert 'desk wants close_ticket({"ticket": "INC-001"}). Allow it? [y/N]' in out
    assert out.endswith("INC-001 is closed.\n5 steps, 30 tokens in, 15 out\n")
    assert list(json.loads((tmp_path / "ticket.crm.json").read_text()).values()) == ["INC-001"]


def test_a_no_leaves_the_ticket_open(tmp_path: Path) -> None:
    with example(tmp_path) as process:
        out, code = answered(process, "\n")
    assert code == 0
    assert "INC-001 stays open. Not started: denied by terminal: not now." in out
    assert not (tmp_path / "ticket.crm.json").exists()


def test_interrupted_it_goes_on_where_it_was(tmp_path: Path) -> None:
    with example(tmp_path) as process:
        process.read_until(process.out, "trouper show")
        process.process.send_signal(signal.SIGINT)
        assert process.end()[0] == 130
    with example(tmp_path, "--yes") as process:
        out, code = answered(process, "")
    assert code == 0
    assert "asked before" in out
    (row,) = [json.loads(line) for line in ok("runs", tmp_path / "ticket.db", "--json").splitlines()]
    assert row["label"] == "succeeded"


def test_somebody_else_may_decide_where_nobody_sits_at_the_terminal(tmp_path: Path) -> None:
    with example(tmp_path) as process:
        assert process.process.stdin is not None
        process.process.stdin.close()
        line = process.read_until(process.out, "trouper approve")[-1]
        action = line.split()[line.split().index("ticket.db") + 1]
        ok("approve", tmp_path / "ticket.db", action, "--as", "maria")
        process.read_until(process.out, "INC-001 is closed.")


def test_the_same_command_id_for_something_else_is_one_line(tmp_path: Path) -> None:
    with example(tmp_path, "--yes") as process:
        assert answered(process, "")[1] == 0
    with example(tmp_path, "Something else") as process:
        code, said = process.end()
    assert code == 1
    assert len(said.splitlines()) == 1
    assert "submit:request-001" in said


@contextmanager
def strict_server(folder: Path) -> Iterator[str]:
    """A model server that answers 400 to whatever is not exactly right; its address."""
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    log = folder / "requests.jsonl"
    files = ["--script", str(folder / "script.json"), "--log", str(log)]
    with Started(sys.executable, "-m", "trouper.testing.stub", *files) as server:
        yield f"http://127.0.0.1:{server.out.readline().strip()}/v1"


def test_with_a_key_it_talks_to_a_real_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with strict_server(tmp_path) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-example-123")
        with example(tmp_path, "--model", "some-model", "--yes") as process:
            out, code = answered(process, "")
    assert code == 0
    assert "It is closed." in out
    requests = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert [request["model"] for request in requests] == ["some-model"] * 3
    assert [tool["function"]["name"] for tool in requests[0]["tools"]] == ["lookup", "close_ticket"]
    assert "token" not in json.dumps(requests[0]["tools"][1]["function"]["parameters"])
    for file in os.listdir(tmp_path):
        content = (tmp_path / file).read_bytes()
        assert b"sk-example-123" not in content
        assert b"a-token-for-the-example" not in content
