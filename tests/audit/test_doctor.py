"""The examination of a journal: each check finds what it is for and says what to do; a sound one is left in peace."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.journal.notes import REGISTRY as NOTES
from tests.journal.notes import Note

from trouper.audit.doctor import CHECKS, Examination, examine
from trouper.audit.findings import Finding
from trouper.audit.run_checkup import Patience
from trouper.audit.secret_patterns import find_secrets
from trouper.core.events import REGISTRY
from trouper_journal import EventRegistry, Journal, Write, event

GOLDEN = Path(__file__).parents[1] / "golden"
DAY = 86_400
SECRETS = {
    "AWS access key id": "AKIA" + "Q3EGRTYUIOPASD42",
    "GitHub token": "ghp_" + "a1B2" * 9,
    "OpenAI key": "sk-proj-" + "a1B2" * 10,
    "Anthropic key": "sk-ant-api03-" + "a1B2" * 10,
    "Slack token": "xoxb-" + "123456789012-abcdef",
    "Google API key": "AIza" + "a1B2c" * 7,
    "Stripe key": "sk_live_" + "a1B2" * 6,
    "private key": "-----BEGIN RSA PRIVATE KEY-----",
    "signed token (JWT)": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N",
    "password in a URL": "postgres://app:hunter2@db/desk",
}  # fmt: skip


@attrs.define
class SetClock:
    """Tells the time that it was set to."""

    time: int = 1_000 * 1_000_000_000

    def now(self) -> int:
        return self.time

    async def sleep_until(self, when: int) -> None:
        await trio.sleep_forever()


def examined(path: Path, *, driven: bool | None = None, now: int | None = None, **patience: float) -> Examination:
    async def main() -> Examination:
        async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
            last = 0
            async for record in journal.past_damage(lambda _: None).read_all():
                last = max(last, record.recorded_at)
            moment = last + 1_000_000_000 if now is None else now
            return await examine(journal, now=moment, driven=driven, patience=Patience(**patience))

    return trio.run(main)


def known(examination: Examination) -> list[Finding]:
    """What is found beside that notes are no events of this release."""
    return [each for each in examination.findings if each.check != "events"]


def found(examination: Examination, check: str) -> list[tuple[str, str]]:
    assert all(each.advice for each in examination.findings)
    return [(each.severity, each.message) for each in examination.findings if each.check == check]


def written(path: Path, *notes: Note, clock: SetClock | None = None) -> Path:
    async def main() -> None:
        async with Journal.open(path, registry=NOTES, clock=clock or SetClock()) as journal:
            for note in notes:
                await journal.append("a", [note])

    trio.run(main)
    os.chmod(path, 0o600)
    return path


def damaged(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
    return path


def golden(tmp_path: Path) -> Path:
    path = Path(shutil.copy(GOLDEN / "runs-1.db", tmp_path / "j.db"))
    os.chmod(path, 0o600)
    return path


def test_a_sound_journal_is_left_in_peace(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", Note(1, "hello"), Note(2, "x" * 40_000))
    before = path.read_bytes()
    examination = examined(path)
    assert (known(examination), examination.ok, examination.records) == ([], True, 2)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]


def test_what_is_broken_is_bad(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", Note(1), Note(2))
    damaged(
        path,
        "DROP TRIGGER events_update",
        "DROP TRIGGER keys_update",
        "CREATE TRIGGER keys_update BEFORE UPDATE ON keys BEGIN SELECT 1; END",
        "DROP INDEX streams_label",
        "UPDATE events SET label = 'forged' WHERE position = 2",
    )
    os.chmod(path, 0o602)
    examination = examined(path)
    assert not examination.ok
    assert ("bad", "events_update is missing from the file") in found(examination, "guards")
    assert ("bad", "streams_label is missing from the file") in found(examination, "guards")
    assert ("bad", "keys_update is not as a journal has it") in found(examination, "guards")
    assert found(examination, "records")[0][0] == "bad"
    assert found(examination, "file") == [("bad", "everybody on this machine may write to the file (mode 602)")]


def test_a_guard_that_never_watches_and_a_trigger_of_somebody_else_are_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", Note(1), Note(2))
    damaged(
        path,
        "DROP TRIGGER events_update",
        "CREATE TRIGGER events_update BEFORE UPDATE ON events WHEN 0 BEGIN SELECT RAISE(ABORT, 'immutable'); END",
        "CREATE TRIGGER projection_of_theirs AFTER INSERT ON events BEGIN UPDATE streams SET label = 'well'; END",
        "CREATE VIEW theirs AS SELECT * FROM events",
        "CREATE TABLE projection_of_ours (day TEXT)",
    )
    assert found(examined(path), "guards") == [
        ("bad", "events_update is not as a journal has it"),
        ("bad", "projection_of_theirs is none of a journal's tables, indexes and triggers"),
        ("bad", "theirs is none of a journal's tables, indexes and triggers"),
    ]


def test_damage_that_sqlite_sees_is_told_without_a_traceback(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", *[Note(number, "x" * 200) for number in range(100)])
    content = bytearray(path.read_bytes())
    # The last page of the table's leaves becomes nothing that SQLite knows.
    content[-4096 : -4096 + 100] = b"\xff" * 100
    path.write_bytes(content)
    examination = examined_damaged(path)
    assert not examination.ok
    assert found(examination, "integrity")


def examined_damaged(path: Path) -> Examination:
    async def main() -> Examination:
        async with Journal.open(path, registry=NOTES, read_only=True) as journal:
            return await examine(journal, now=2_000 * 1_000_000_000)

    return trio.run(main)


def test_clocks_that_go_back_or_ahead_are_told_with_the_position(tmp_path: Path) -> None:
    clock = SetClock()

    async def main() -> None:
        async with Journal.open(tmp_path / "a.db", registry=NOTES, clock=clock) as journal:
            for number, seconds in enumerate((0, 10, -3600, 1, 0.5)):
                clock.time += int(seconds * 1e9)
                await journal.append("a", [Note(number)])

    trio.run(main)
    jumps = [each for each in examined(tmp_path / "a.db").findings if each.check == "clock"]
    assert [(each.severity, each.position) for each in jumps] == [("warn", 3)]
    assert "went back by 3,600 s" in jumps[0].message
    early = [each for each in examined(tmp_path / "a.db", now=1).findings if each.check == "clock"]
    assert "in the future" in early[0].message


@pytest.mark.parametrize("kind", SECRETS)
def test_what_looks_like_a_secret_is_found_and_quoted_nowhere(kind: str, tmp_path: Path) -> None:
    secret = SECRETS[kind]
    text = f"Here it is: {secret} and more"
    path = written(tmp_path / "a.db", Note(1, "harmless"), Note(2, text), Note(3, text + "." * 40_000))
    examination = examined(path)
    told = [each for each in examination.findings if each.check == "secrets"]
    assert [(each.severity, each.position) for each in told] == [("bad", 2), ("bad", 3)]
    assert f"({kind}, " in told[0].message
    assert "a large value" in told[1].message
    assert secret not in repr(examination)


@given(st.binary(max_size=300))
def test_any_bytes_can_be_looked_through(data: bytes) -> None:
    list(find_secrets(data))
    for secret in SECRETS.values():
        assert list(find_secrets(data + b" " + secret.encode() + b" " + data))


def test_ordinary_words_are_no_secrets() -> None:
    text = "desk-ant-farms and task-lists; https://example.com/a:b@c; skill_live; ghost_writers; https://example.com:8080/x@y"
    assert list(find_secrets(text.encode() * 50)) == []


def test_large_values_that_no_record_needs_are_noted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", Note(1, "x" * 40_000))
    damaged(path, "INSERT INTO large VALUES (x'00ff', 'a', x'0102')")
    examination = examined(path)
    assert examination.ok
    assert found(examination, "values") == [("note", "no record refers to 1 of the large values (2 bytes)")]


def test_events_of_another_release_are_told_once_each(tmp_path: Path) -> None:
    @event("run.started", schema=2)
    @attrs.frozen
    class Newer:
        number: int

    @event("note.sung")
    @attrs.frozen
    class Unknown:
        number: int

    async def main() -> None:
        steps = {("run.started", 1): lambda facts, content: (facts, content)}
        async with Journal.open(
            tmp_path / "a.db", registry=EventRegistry([Newer, Unknown], upcasters=steps)
        ) as journal:
            await journal.append("a", [Newer(1), Unknown(1), Newer(2), Unknown(2)])

    trio.run(main)
    assert found(examined(tmp_path / "a.db"), "events") == [
        ("warn", "run.started schema 2 is newer than 1, the newest known here"),
        ("warn", "note.sung schema 1 is unknown here"),
    ]


def test_undeclared_tools_are_noted_once_and_runs_that_nobody_drives_are_counted(tmp_path: Path) -> None:
    examination = examined(golden(tmp_path), driven=False, waiting=1e12)
    tools = found(examination, "tools")
    assert tools
    assert len(tools) == len(set(tools))
    assert {severity for severity, _ in tools} == {"note"}
    idle = [message for severity, message in found(examination, "runs") if severity == "warn"]
    assert all("no process drives the journal" in message for message in idle)


async def standing(path: Path, label: str, wake_at: int | None) -> None:
    async with Journal.open(path, registry=NOTES, clock=SetClock()) as journal, journal.drive("me") as fence:
        await journal.commit([Write("run/r1", [Note(1)], label=label, wake_at=wake_at)], fence=fence)


@pytest.mark.parametrize(
    ("label", "wake_at", "driven", "days", "expected"),
    [
        ("running", 0, True, 1, ("runs", "bad", "nothing was recorded for")),
        ("running", 0, True, 0, None),
        ("running", 0, False, 1, ("runs", "warn", "1 run could go on")),
        ("sleeping", 2**62, True, 1, None),
        ("awaiting_approval", None, True, 3, ("approvals", "warn", "has waited for an approval for 3 d")),
        ("awaiting_approval", None, True, 0, None),
        ("over_budget", None, True, 3, ("runs", "warn", "has waited at a limit for 3 d")),
        ("paused", None, True, 3, ("runs", "note", "has been paused for 3 d")),
        ("in_doubt", None, True, 0, ("doubts", "warn", "may or may not have taken effect")),
        ("cancelled-in-doubt", None, True, 0, ("doubts", "warn", "may or may not have taken effect")),
        ("drifted", 1, True, 0, ("drift", "warn", "its agent is not what it was")),
        ("succeeded", None, True, 3, None),
    ],
)
def test_runs_that_wait_too_long_are_told_with_what_they_wait_for(
    label: str, wake_at: int | None, driven: bool, days: int, expected: tuple[str, str, str] | None, tmp_path: Path
) -> None:
    trio.run(standing, tmp_path / "a.db", label, wake_at)
    os.chmod(tmp_path / "a.db", 0o600)
    now = SetClock().now() + (days * DAY + 10) * 1_000_000_000
    findings = examined(tmp_path / "a.db", driven=driven, now=now).findings
    told = [(each.check, each.severity, each.message) for each in findings if each.check != "events"]
    if expected is None:
        assert told == []
    else:
        [(check, severity, message)] = told
        assert (check, severity) == expected[:2]
        assert expected[2] in message


def test_the_log_of_a_killed_program_is_noted(tmp_path: Path) -> None:
    async def main() -> Examination:
        async with Journal.open(tmp_path / "a.db", registry=NOTES) as journal:
            await journal.append("a", [Note(1)])
            async with Journal.open(tmp_path / "a.db", registry=NOTES, read_only=True) as reading:
                return await examine(reading, now=(await reading.read_page("a"))[0].recorded_at, driven=False)

    [(severity, message)] = found(trio.run(main), "log")
    assert severity == "note"
    assert "in the log beside the file" in message


async def test_a_journal_that_was_opened_to_write_is_not_examined(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "a.db") as journal:
        with pytest.raises(TypeError, match="read_only"):
            await examine(journal, now=0)


def test_many_findings_of_a_kind_are_counted(tmp_path: Path) -> None:
    secret = SECRETS["AWS access key id"]
    examination = examined(written(tmp_path / "a.db", *[Note(number, secret) for number in range(30)]))
    assert len(known(examination)) == 20
    assert examination.unlisted == (("secrets", "bad", 10),)
    assert {each.check for each in examination.findings} <= set(CHECKS)
