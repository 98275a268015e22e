"""``trouper run``: the answer, the way to it, and what a person is asked meanwhile."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import pytest
from tests.cli.agents import HOSTILE
from tests.cli.conftest import Journals
from tests.cli.program import AGENTS, complaint, daemon, objects, ok, ok_called, one_object, started, trouper


def run(agent: str, *rest: str | Path) -> tuple[str, ...]:
    """The command line that asks an agent of the test file."""
    return ("run", f"{AGENTS}:{agent}", *map(str, rest))


def test_the_answer_alone_goes_to_standard_output_and_the_way_to_standard_error(tmp_path: Path) -> None:
    done = trouper(*run("asker", "How is INC-1?", "--as", "maria"), cwd=tmp_path)
    assert done.returncode == 0
    # A pipe gets the answer as it is; what a terminal gets is tested with a terminal.
    assert done.stdout == "It is open.\nReally \x1b[31mred\x1b[0m.\n"
    assert 'maria         asks asker: "How is INC-1?"' in done.stderr
    assert '0.0 returns {"ticket":"INC-1","status":"open"}' in done.stderr
    assert done.stderr.splitlines()[-1] == "succeeded after 3 steps; 20 tokens in, 10 out"
    (row,) = objects(ok_called("runs", tmp_path / "trouper.db", "--json"))
    assert row["label"] == "succeeded"


def test_the_same_command_id_is_the_same_run_and_other_content_a_conflict(tmp_path: Path) -> None:
    given = ["--journal", str(tmp_path / "j.db"), "--command-id", "mail-1"]
    first = trouper(*run("asker", "A", *given))
    again = trouper(*run("asker", "A", *given))
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert again.stderr.splitlines()[0] == first.stderr.splitlines()[0] + "; this command was given before"
    assert len(objects(ok_called("runs", tmp_path / "j.db", "--json"))) == 1
    other = trouper(*run("asker", "B", *given))
    assert other.returncode == 4
    assert "submit:mail-1" in complaint(other)


def test_an_approval_is_asked_for_with_the_very_command_and_waited_for(tmp_path: Path) -> None:
    with started(*run("desk", "Close it"), cwd=tmp_path) as process:
        lines = process.read_until(process.err, "trouper deny")
        assert any("wants to call close_ticket (idempotent_write)" in line for line in lines)
        assert '  ticket = "INC-1"' in lines
        (command,) = [shlex.split(line) for line in lines if "trouper approve" in line]
        assert command[0] == "trouper"
        ok(*command[1:], "--reason", "typed elsewhere", cwd=Path("/"))
        assert process.out.readline() == "Closed.\n"
        assert process.end()[0] == 0


def test_json_is_one_object_a_line_with_events_approvals_and_the_result(tmp_path: Path) -> None:
    with started(*run("desk", "Close it", "--json", "--journal", tmp_path / "j.db")) as process:
        lines = objects("\n".join(process.read_until(process.out, '"kind": "approval"')))
        assert lines[0]["kind"] == "run"
        assert {line["kind"] for line in lines[1:-1]} == {"event"}
        assert lines[-1]["arguments"] == {"ticket": "INC-1"}
        ok("deny", tmp_path / "j.db", str(lines[-1]["action"]), "--as", "maria")
        result = json.loads(process.read_until(process.out, '"kind": "result"')[-1])
        assert (result["label"], result["output"]) == ("succeeded", "Closed.")
        assert process.end() == (0, "")


def test_a_doubt_is_shown_with_the_ways_to_settle_it(tmp_path: Path) -> None:
    with started(*run("payer", "Pay"), cwd=tmp_path) as process:
        lines = process.read_until(process.err, "abandon")
        assert any("Nobody knows whether wire took effect" in line for line in lines)
        (command,) = [shlex.split(line) for line in lines if " not_applied " in line]
        ok(*command[1:])
        assert process.out.readline() == "Sent.\n"


def test_ctrl_c_leaves_a_run_that_goes_on_with_the_command_that_is_told(tmp_path: Path) -> None:
    with started(*run("desk", "Close it"), cwd=tmp_path) as process:
        process.read_until(process.err, "trouper deny")
        process.process.send_signal(signal.SIGINT)
        code, left = process.end()
    assert code == 130
    assert "Traceback" not in left
    command = shlex.split(left.strip().splitlines()[-1].partition("with: ")[2])
    ok("approve", tmp_path / "trouper.db", f"{command[-1]}/0.0")
    assert ok(*command[1:], cwd=tmp_path) == "Closed.\n"


def test_a_run_that_fails_ends_with_exit_code_1_and_says_why(tmp_path: Path) -> None:
    done = trouper(*run("dead", "Hello", "--journal", tmp_path / "j.db"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the provider is down" in done.stderr.splitlines()[-1]
    json_lines = objects(trouper(*run("dead", "Again", "--json", "--journal", tmp_path / "j.db")).stdout)
    assert (json_lines[-1]["kind"], json_lines[-1]["failure"]) == ("result", "model")


def test_a_failed_run_goes_on_once_its_provider_is_back(tmp_path: Path) -> None:
    (tmp_path / "outage").touch()
    failed = trouper(*run("broken", "Hello"), cwd=tmp_path)
    assert failed.returncode == 1
    (tmp_path / "outage").unlink()
    name = str(one_object(ok_called("runs", tmp_path / "trouper.db", "--json"))["run"])
    assert f"trouper resume {tmp_path}/trouper.db {name}" in ok_called("show", tmp_path / "trouper.db", name)
    ok("resume", tmp_path / "trouper.db", name, "--as", "maria", "--reason", "it is back")
    assert ok(*run("broken", "--resume", name), cwd=tmp_path) == "turn 0\n"
    assert 'maria         lets the run go on: "it is back"' in ok_called("show", tmp_path / "trouper.db", name)


def test_a_call_that_only_reads_and_timed_out_leaves_nothing_in_doubt(tmp_path: Path) -> None:
    done = trouper(*run("patient", "Hello"), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "It did not come.\n")
    (line,) = [line for line in done.stderr.splitlines() if "has no outcome" in line]
    assert line.endswith("0.0 has no outcome: it ran out of time; it only reads, so nothing is in doubt")
    assert "unknown" not in done.stderr
    name = str(one_object(ok_called("runs", tmp_path / "trouper.db", "--json"))["run"])
    events = one_object(ok_called("show", tmp_path / "trouper.db", name, "--json"))["events"]
    assert isinstance(events, list)
    (told,) = [event["data"]["text"] for event in events if event["type"] == "action.receipted"]
    assert told == "Failed: it timed out. It only reads: there is no effect to be in doubt about."


def test_the_step_limit_can_be_given(tmp_path: Path) -> None:
    done = trouper(*run("asker", "Hello", "--max-steps", "1"), cwd=tmp_path)
    assert done.returncode == 1
    assert "the limit of steps is reached after 1" in done.stderr.splitlines()[-1]


def test_a_secret_comes_from_the_environment_and_is_nowhere_to_be_seen(tmp_path: Path) -> None:
    secret = "tr0ub4dor"
    given = run("keeper", "Hello", "--secret", "crm/token=CRM_TOKEN", "--json")
    done = trouper(*given, cwd=tmp_path, env={"CRM_TOKEN": secret})
    assert done.returncode == 0, done.stderr
    assert "9 characters for 0.0" in done.stdout
    assert secret not in done.stdout + done.stderr
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes()


def test_permissions_are_granted_by_name(tmp_path: Path) -> None:
    denied = trouper(*run("vault", "Look", "--journal", "a.db"), cwd=tmp_path)
    assert "denied 0.0 by the tool's permissions, for want of vault:read" in denied.stderr
    granted = trouper(*run("vault", "Look", "--journal", "b.db", "--grant", "vault:read"), cwd=tmp_path)
    assert "denied" not in granted.stderr
    assert "gold" in granted.stderr


def test_other_unfinished_runs_of_the_files_agents_go_on_too(tmp_path: Path, journals: Journals) -> None:
    waiting = journals.waiting(journal := tmp_path / "j.db")
    ok("approve", journal, f"{waiting}/0.0")
    with started("tail", journal, "--run", waiting, "--after", "0", "--json") as tail:
        ok(*run("desk", "--resume", waiting, "--journal", journal))
        tail.read_until(tail.out, '"run.succeeded"')


def test_a_journal_that_a_daemon_drives_is_refused_with_its_name(tmp_path: Path) -> None:
    with daemon(tmp_path / "j.db", "desk") as process:
        process.read_until(process.out, "awaiting_approval")
        done = trouper(*run("asker", "Hello", "--journal", tmp_path / "j.db"))
        assert done.returncode == 4
        assert str(process.process.pid) in complaint(done)


@pytest.mark.parametrize(
    ("target", "code", "why"),
    [
        (f"{AGENTS}:nobody", 3, "no agent nobody; agents: asker, desk"),
        ("nowhere.py:desk", 3, "there is no file nowhere.py"),
        (f"{AGENTS}", 2, "say which agent is meant"),
        (":desk", 2, "not of the form FILE:AGENT"),
        ("broken.py:desk", 2, "broken.py (line 2) cannot be loaded: ZeroDivisionError: division by zero"),
        ("syntax.py:desk", 2, "cannot be loaded: SyntaxError"),
        ("exits.py", 2, "ends the program when it is loaded"),
        ("empty.py", 2, "there: no agent"),
    ],
)
def test_an_agent_that_cannot_be_had(tmp_path: Path, target: str, code: int, why: str) -> None:
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "syntax.py").write_text("def\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "empty.py").write_text("")
    done = trouper("run", target, "Hello", cwd=tmp_path)
    assert done.returncode == code
    assert why in complaint(done)
    assert not (tmp_path / "trouper.db").exists()


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["Hello", "--resume", "X"],
        ["Hello", "--secret", "token"],
        ["Hello", "--secret", "token=NO_SUCH_VARIABLE"],
        ["Hello", "--max-steps", "0"],
        ["Hello", "--adopt"],
        [""],
        ["  \n"],
    ],
)
def test_options_that_cannot_be_meant(tmp_path: Path, given: list[str]) -> None:
    done = trouper(*run("asker", *given), cwd=tmp_path)
    assert done.returncode == 2
    assert complaint(done)
    assert not (tmp_path / "trouper.db").exists()


def test_a_file_may_import_its_neighbours_and_hold_one_agent(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text('ANSWER = "from next door"\n')
    (tmp_path / "solo.py").write_text(
        "from __future__ import annotations\n"
        "import words\n"
        "from trouper import Agent\n"
        "from trouper.testing import ScriptedModel\n"
        "one = Agent('one', 'x', model=ScriptedModel([words.ANSWER]))\n"
        "same = one\n"
    )
    assert ok("run", tmp_path / "solo.py", "Hello", "--journal", tmp_path / "j.db") == "from next door\n"


def test_a_run_whose_agent_has_changed_is_held_until_somebody_adopts_it(tmp_path: Path) -> None:
    source = AGENTS.read_text()
    (file := tmp_path / "mine.py").write_text(source)
    with started("run", f"{file}:desk", "Close it", cwd=tmp_path) as process:
        process.read_until(process.err, "trouper deny")
    name = str(one_object(ok_called("runs", tmp_path / "trouper.db", "--json"))["run"])
    ok("approve", tmp_path / "trouper.db", f"{name}/0.0")
    file.write_text(source.replace("requires_approval=True)\ndef close_ticket", "timeout=9)\ndef close_ticket"))
    with started("run", f"{file}:desk", "--resume", name, cwd=tmp_path) as process:
        lines = process.read_until(process.err, "--adopt")
        assert any("holds the run: the agent's definition changed (contract" in line for line in lines)
        command = shlex.split(lines[-1])
        process.process.send_signal(signal.SIGINT)
        assert process.end()[0] == 130
    assert "drifted" in ok_called("runs", tmp_path / "trouper.db")
    assert ok(*command[1:], "--as", "maria", cwd=tmp_path) == "Closed.\n"
    assert "maria         lets the run go on under definition" in ok_called("show", tmp_path / "trouper.db", name)


def test_what_a_model_wrote_is_shown_to_the_approver_and_never_obeyed(tmp_path: Path, journals: Journals) -> None:
    run_id = journals.waiting(journal := tmp_path / "j.db", "hostile")
    for command in (("approvals", journal), ("show", journal, run_id), ("tail", journal, "--no-follow")):
        text = ok(*command)
        assert "\\u202egpj.exe\\u2066" in text
        assert all(char.isprintable() or char == "\n" for char in text)
        assert "\n# approved" not in text
    assert one_object(ok_called("approvals", journal, "--json"))["arguments"] == {"ticket": HOSTILE}
