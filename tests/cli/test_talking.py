"""Sessions from the command line, and the example that holds one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Journals
from tests.cli.program import PATIENCE, ROOT, called, complaint, environment, objects, ok_called, one_object

EXAMPLE = ROOT / "examples" / "chat_session.py"


def chat(cwd: Path, *arguments: str, typed: str = "") -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        cwd=cwd,
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_remembers_and_summarises(tmp_path: Path) -> None:
    first = chat(tmp_path, typed="my name is Maria\nhello\n\n")
    assert "You said 'my name is Maria'. I see 1 messages." in first
    assert "You said 'hello'. I see 3 messages." in first
    assert "(4 messages in all, 4 of them" in first
    words = [word for number in range(6) for word in ("--say", f"something rather longer, number {number}")]
    again = chat(tmp_path, *words)
    assert "(session me goes on: 4 messages before)" in again
    assert "and a summary." in again
    journal = tmp_path / "chat.db"
    (row,) = objects(ok_called("sessions", journal, "--json"))
    assert (row["session"], row["agent"], row["turns"], row["active"]) == ("me", "chat", 8, None)
    turns = objects(ok_called("sessions", journal, "me", "--json"))
    assert [turn["turn"] for turn in turns] == list(range(1, 9))
    stories = [ok_called("show", journal, str(turn["run"])) for turn in turns]
    assert any('this summary is: "They said: my name is Maria' in story for story in stories)
    assert all(f"turn {number} of session me" in story for number, story in enumerate(stories, 1))
    assert "it starts from 2 messages" in stories[1]
    assert ok_called("replay", journal)
    assert "session me with chat: 8 turns" in ok_called("sessions", journal, "me")
    assert "has the turn" not in ok_called("tail", journal, "--no-follow", "-n", "1000")


def test_a_message_is_sent_without_the_agent_and_once(tmp_path: Path, journals: Journals) -> None:
    journals.waiting(journal := tmp_path / "agents.db")
    assert ok_called("sessions", journal) == "no sessions yet\n"
    done = called("send", journal, "s", "Hello")
    assert (done.returncode, "--agent NAME opens one" in complaint(done)) == (3, True)
    first = one_object(ok_called("send", journal, "s", "Hello", "--agent", "desk", "--command-id", "m1", "--json"))
    assert (first["turn"], first["given"], first["repeated"], first["driven"]) == (1, True, False, False)
    again = ok_called("send", journal, "s", "Hello", "--agent", "desk", "--command-id", "m1")
    assert f"turn 1 of session s was sent before: run {first['run']}" in again
    second = one_object(ok_called("send", journal, "s", "And more", "--json"))
    assert (second["turn"], second["given"]) == (2, False)
    done = called("send", journal, "s", "Hello", "--agent", "other")
    assert (done.returncode, "it is with agent desk" in complaint(done)) == (4, True)
    assert called("send", journal, "", "Hello", "--agent", "desk").returncode == 2
    labels = [row["label"] for row in objects(ok_called("runs", journal, "--json"))]
    assert labels == ["awaiting_approval", "running", "queued"]
    statuses = [turn["status"] for turn in objects(ok_called("sessions", journal, "s", "--json"))]
    assert statuses == ["active", "queued"]
    assert called("sessions", journal, "t").returncode == 3


def test_a_session_with_an_agent_that_has_never_run_here_is_opened_and_said(tmp_path: Path, journals: Journals) -> None:
    # Another process may bring the agent; the name may be mistyped as well.
    journals.waiting(journal := tmp_path / "agents.db")
    done = called("send", journal, "s", "Hello", "--agent", "dekk")
    assert done.returncode == 0
    assert "no agent dekk has run in this journal yet, those that have: desk" in " ".join(done.stderr.split())
    assert "has run in this journal" not in called("send", journal, "t", "Hello", "--agent", "desk").stderr
    assert "has run in this journal" not in called("send", journal, "s", "More").stderr


def test_a_message_supersedes_what_waits_for_a_person(tmp_path: Path) -> None:
    chat(tmp_path, "--say", "hello")
    sent = one_object(ok_called("send", tmp_path / "chat.db", "me", "more", "--supersede", "--json"))
    assert sent["given"] is True
    assert "(session me goes on: 2 messages before)" in chat(tmp_path, "--say", "and more")
