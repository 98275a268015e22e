"""examples/extraction.py: offline, started again, and against a server that speaks the protocol strictly."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.cli.program import ROOT, Started, ok, one_object

EXAMPLE = ROOT / "examples" / "extraction.py"
CLAIM = {"customer": "Rosa Lind", "order": "K-1017", "kind": "damaged", "noticed": "2026-03-03", "amount": 39.9}
LAST = "Rosa Lind wants 39.90 euros back for K-1017, damaged on 03 March\n"


def ended(folder: Path, *arguments: str) -> tuple[str, str, int]:
    with Started(sys.executable, EXAMPLE, *arguments, cwd=folder) as process:
        out, err = process.process.communicate(timeout=60)
        return out, err, process.process.returncode


def test_offline_it_is_sent_back_once_and_extracts_the_claim(tmp_path: Path) -> None:
    out, err, code = ended(tmp_path)
    assert (err, code) == ("", 0)
    assert out.startswith("sent back: The final output was not accepted:\n- order: String should match pattern")
    assert '- amount: Input should be a valid number (got "39.90 euros")' in out
    assert out.endswith(LAST)
    # Started again, it is the same run, and the claim is rebuilt from the journal.
    assert ended(tmp_path) == (out, err, code)
    (row,) = [json.loads(line) for line in ok("runs", tmp_path / "claims.db", "--json").splitlines()]
    assert one_object(ok("show", tmp_path / "claims.db", row["run"], "--json"))["output"] == CLAIM


def test_with_a_key_it_talks_to_a_real_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = [
        "Filed, I think.",
        {"calls": [["c", "file_claim", '{"order": "K-1017"}']]},
        f"Here it is:\n```json\n{json.dumps(CLAIM)}\n```",
    ]
    (tmp_path / "script.json").write_text(json.dumps(script))
    log = tmp_path / "requests.jsonl"
    files = ["--script", str(tmp_path / "script.json"), "--log", str(log)]
    with Started(sys.executable, "-m", "trouper.testing.stub", *files) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.out.readline().strip()}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-example-123")
        out, err, code = ended(tmp_path, "--model", "some-model")
    assert (err, code) == ("", 0)
    assert out.startswith("sent back: You are not done yet. Still missing:\n- a call of file_claim that succeeds")
    assert out.endswith(LAST)
    requests = [json.loads(line) for line in log.read_text().splitlines()]
    # OpenAI's own models are held to the schema by the API, and call tools as ever.
    assert [request["response_format"]["type"] for request in requests] == ["json_schema"] * 3
    assert requests[0]["response_format"]["json_schema"]["strict"] is True
    assert [each["function"]["name"] for each in requests[0]["tools"]] == ["file_claim"]


def test_what_cannot_be_read_or_asked_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err, code = ended(tmp_path, "--letter", "nowhere.txt")
    assert (out, err.count("\n"), code) == ("", 1, 2)
    assert "cannot read the letter" in err
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    out, err, code = ended(tmp_path, "--model", "some-model")
    assert (out, err.count("\n"), code) == ("", 1, 1)
    assert "no client for the model" in err
