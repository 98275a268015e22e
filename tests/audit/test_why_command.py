"""``trouper why``: what people and programs are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.audit.conftest import GOLDEN
from tests.audit.tampering import OF_STREAM, forged
from tests.cli.program import JsonObject, called, complaint, ok_called, one_object
from tests.golden.found import described, run_of

from trouper import REGISTRY, Human, Message
from trouper.cli.codes import Exit
from trouper.core import events as ev
from trouper_journal import Journal

RUNS = Path("runs-1.db")


def asked(what: str) -> str:
    """The golden run with that input."""
    return run_of(RUNS, what)


def inner(found: JsonObject, *path: str | int) -> object:
    """What stands in a JSON object."""
    value: object = found
    for step in path:
        value = cast("dict[str | int, object]", value)[step]
    return value


def test_people_read_the_whole_chain(golden_runs: Path) -> None:
    run = asked("refund 300")
    shown = ok_called("why", golden_runs, f"{run[:24]}/0.0")
    for told in (
        f'call {run}/0.0 refund(order="R-3", amount=300), idempotent_write  done',
        'otto approves 0.0 refund: "order checked"',
        "ida approves 0.0 refund",
        "computed anew, is the recorded one",
        'as the model wrote it: refund({"order": "R-3", "amount": 300})',
        'human (what was asked) "refund 300"',
        "tools offered: refund, send",
        'maria asks treasurer: "refund 300"  (asserted, api)  key submit:refund 300',
    ):
        assert told in shown
    answer = ok_called("why", golden_runs, run)
    assert answer.startswith(f"run of treasurer {run}  succeeded")
    assert "approved by otto, ida" in answer


def test_evidence_is_not_touched(golden_runs: Path) -> None:
    before, folder = golden_runs.read_bytes(), sorted(golden_runs.parent.iterdir())
    golden_runs.chmod(0o400)
    ok_called("why", golden_runs, asked("refund 300"))
    assert (golden_runs.read_bytes(), sorted(golden_runs.parent.iterdir())) == (before, folder)


def test_programs_read_the_same(golden_runs: Path) -> None:
    run = asked("refund 300")
    found = one_object(ok_called("why", golden_runs, f"{run}/0.0", "--json"))
    assert (found["kind"], found["action"], found["outcome"], found["binding"]) == (
        "call",
        f"{run}/0.0",
        "ok",
        "matches",
    )
    assert inner(found, "model_call", "requests", 0, "check", "digest") == "matches"
    assert inner(found, "model_call", "requests", 0, "messages", 0, "message", "content") == "refund 300"
    assert inner(found, "origin", "submitted", "key") == "submit:refund 300"
    assert inner(found, "origin", "definition", "document", "contract", "name") == "treasurer"
    answer = one_object(ok_called("why", golden_runs, run, "--json"))
    assert (answer["kind"], answer["label"]) == ("answer", "succeeded")
    spend = one_object(ok_called("why", golden_runs, "--spend", run, "--json"))
    assert (spend["kind"], inner(spend, "own", "input_tokens")) == ("spend", 20)


def test_everything_in_a_journal_can_be_explained_to_people_and_programs(golden_runs: Path) -> None:
    for run in list(described("runs-1")["runs"])[::3]:
        for arguments in ((run,), ("--spend", run), (run, "--full")):
            assert run in ok_called("why", golden_runs, *arguments)
            if "--full" not in arguments:
                assert one_object(ok_called("why", golden_runs, *arguments, "--json"))["run"] == run


def test_a_digest_that_differs_is_shown_and_is_exit_code_1(golden_runs: Path) -> None:
    run = asked("refund 300")
    change = f"UPDATE events SET content = reworded(content, ?, ?) WHERE type = 'run.submitted' AND {OF_STREAM}"
    assert forged(golden_runs, change, b"refund 300", b"refund 301", f"run/{run}") == 1
    done = called("why", golden_runs, f"{run}/0.0")
    assert done.returncode == 1
    assert "the request digest DIFFERS: recorded " in done.stdout
    assert one_object(called("why", golden_runs, run, "--json").stdout)["run"] == run


def test_erased_content_is_called_that(golden_runs: Path) -> None:
    run = asked("delegate")
    assert forged(golden_runs, f"UPDATE events SET key_id = 'k' WHERE content <> '' AND {OF_STREAM}", f"run/{run}")
    shown = ok_called("why", golden_runs, f"{run}/0.0")
    assert "researcher([erased])" in shown
    assert "[erased]" in ok_called("why", golden_runs, run)
    found = one_object(ok_called("why", golden_runs, f"{run}/0.0", "--json"))
    assert (found["arguments"], found["binding"]) == ({"$erased": True}, "erased")


async def write_nonsense(path: Path) -> None:
    """A run with an event that no runtime would write."""
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("tests") as fence:
        events = [ev.RunSubmitted("x", salt=b"s"), ev.HookApplied("before_model", "nonsense"), ev.RunFailed("model")]
        await journal.append("run/X", events, fence=fence)


def test_events_that_cannot_be_folded_end_the_explanation_where_they_stand(tmp_path: Path) -> None:
    trio.run(write_nonsense, tmp_path / "j.db")
    assert "position 2: hook.applied cannot be folded" in ok_called("why", tmp_path / "j.db", "X")
    assert "position 2" in str(
        inner(one_object(ok_called("why", tmp_path / "j.db", "X", "--json")), "origin", "unread")
    )


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 2**20), bit=st.integers(0, 7))
def test_whatever_bit_is_flipped_the_answer_is_an_explanation_or_one_line(
    golden_runs: Path, place: int, bit: int
) -> None:
    original = (GOLDEN / "runs-1.db").read_bytes()
    damaged = bytearray(original)
    damaged[place % len(damaged)] ^= 1 << bit
    golden_runs.write_bytes(damaged)
    for arguments in (("why", "RUN"), ("why", "RUN/0.0", "--json"), ("why", "--spend", "RUN"), ("diff", "RUN", "RUN")):
        done = called(arguments[0], golden_runs, *(each.replace("RUN", asked("delegate")) for each in arguments[1:]))
        assert done.returncode in {Exit.OK, Exit.BAD, Exit.NOT_FOUND, Exit.STORAGE}, done.stderr
        assert done.stdout or complaint(done)
    assert golden_runs.read_bytes() == damaged


async def meddle(path: Path, run: str) -> None:
    """Append a decision past the rules: whoever may open the file can."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        await journal.append(f"run/{run}", [ev.ApprovalDecided("0.0", 1, "approve", b"", ev.Principal("mallory"))])


def test_a_decision_that_does_not_count_is_called_that(golden_runs: Path) -> None:
    run = asked("refund 500")
    trio.run(meddle, golden_runs, run)
    shown = ok_called("why", golden_runs, f"{run}/0.0").splitlines()
    (place,) = [place for place, line in enumerate(shown) if "mallory approves" in line]
    assert "this did not count: it is past a rule, too late, or about another call" in shown[place + 1]
    assert "approved by otto" in ok_called("why", golden_runs, run)
    assert "without effect: approves 0.0 refund" in ok_called("show", golden_runs, run)
    ok_called("export", golden_runs, "--run", run, "--format", "html", "--out", golden_runs.with_name("r.html"))
    page = golden_runs.with_name("r.html").read_text("utf-8")
    assert ("without effect: approves" in page, "approved by mallory" in page) == (True, False)
    assert (
        len(cast("list[int]", one_object(ok_called("why", golden_runs, f"{run}/0.0", "--json"))["void_decisions"])) == 1
    )


EVIL = "\x1b[2J\u202egpj\n# approved"


async def write_run(path: Path, messages: Sequence[Message]) -> None:
    """A run of somebody who means no good."""
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("tests") as fence:
        events = [
            ev.RunSubmitted(EVIL, input=tuple(messages), salt=b"s", by=ev.Principal(EVIL)),
            ev.RunStarted(EVIL, "", "", 1, ev.Limits(3)),
            ev.ModelRequested(0, 1, b"d"),
            ev.ModelResponded(0, 1, "stop", text=EVIL, calls=(ev.AskedCall(EVIL, EVIL),), model=EVIL),
            ev.RunFailed("model", EVIL),
        ]
        await journal.append("run/X", events, fence=fence)


def test_hostile_words_do_not_reach_the_terminal(tmp_path: Path) -> None:
    trio.run(write_run, tmp_path / "j.db", [Human("m", EVIL)])
    for arguments in (("X",), ("X/0.0",), ("--spend", "X"), ("X", "--full")):
        shown = called("why", tmp_path / "j.db", *arguments).stdout
        assert "X" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_long_conversations_are_cut_unless_all_is_asked_for(tmp_path: Path) -> None:
    trio.run(write_run, tmp_path / "j.db", [Human(f"m{number}", f"word {number}\nand more") for number in range(30)])
    shown = called("why", tmp_path / "j.db", "X").stdout
    assert "10 messages more; --full shows all" in shown
    assert ('"word 0\\nand more"' in shown, "word 5" in shown, "word 29" in shown) == (True, False, True)
    full = called("why", tmp_path / "j.db", "X", "--full").stdout
    assert all(f"word {number}\n" in full for number in range(30))


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("nobody",), 3, "there is no run nobody"),
        (("RUN/9.0",), 3, "has no call 9.0; it has 0.0"),
        (("--spend", "RUN/0.0"), 2, "--spend explains what a run has spent"),
    ],
)
def test_what_cannot_be_explained_is_one_line(
    golden_runs: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = called("why", golden_runs, *(each.replace("RUN", asked("refund 300")) for each in arguments))
    assert done.returncode == code
    assert told in complaint(done)
