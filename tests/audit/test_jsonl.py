"""Records as JSON Lines: complete, of the documented form, and enough to check the digests."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

import attrs
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.audit.conftest import GOLDEN
from tests.audit.tampering import tampered
from tests.cli.program import called, complaint, objects, ok_called
from tests.journal.notes import REGISTRY, Note

from trouper.audit import LineOptions, Subject, export_jsonl, record_object, record_schema
from trouper.audit.lines import jsonable
from trouper_journal import Journal, JournalCorrupt, leaf_digest, unpack_map

Line = Mapping[str, object]


PLAINLY = LineOptions()
RAW = LineOptions(raw=True)
ALL_OPTIONS = [PLAINLY, RAW, LineOptions(redact=True), LineOptions(raw=True, redact=True)]


async def exported(path: Path, subject: Subject | None = None, options: LineOptions = PLAINLY) -> list[Line]:
    lines: list[str] = []
    async with Journal.open(path) as journal:
        written = await export_jsonl(journal, lines.append, subject, options=options)
    assert written == len(lines)
    return [cast("Line", json.loads(line)) for line in lines]


@pytest.mark.parametrize("options", ALL_OPTIONS, ids=str)
async def test_every_line_is_of_the_shipped_schema(golden_runs: Path, options: LineOptions) -> None:
    validator = Draft202012Validator(record_schema())
    Draft202012Validator.check_schema(record_schema())
    lines = await exported(golden_runs, options=options)
    assert [error.message for line in lines for error in validator.iter_errors(line)] == []


async def test_the_whole_journal_is_every_record_in_order(golden_runs: Path) -> None:
    lines = await exported(golden_runs)
    async with Journal.open(golden_runs) as journal:
        records = [record async for record in journal.read_all()]
        assert {line["journal_id"] for line in lines} == {journal.id.hex()}
    told = [(line["position"], line["stream"], line["version"], line["type"], line["leaf"]) for line in lines]
    assert told == [(each.position, each.stream, each.version, each.type, each.leaf.hex()) for each in records]


async def test_the_stored_bytes_give_the_leaf_and_the_fields(golden_runs: Path) -> None:
    """What a reader without our code does: base64, SHA-256, MessagePack."""
    async with Journal.open(golden_runs) as journal:
        records = {record.position: record async for record in journal.read_all()}
        for line in await exported(golden_runs, options=RAW):
            raw = cast("Mapping[str, str]", line["raw"])
            record = records[cast("int", line["position"])]
            assert base64.b64decode(raw["facts"]) == record.facts
            assert leaf_digest(journal.id, record).hex() == line["leaf"]
            facts = msgpack.unpackb(base64.b64decode(raw["facts"])) if raw["facts"] else {}
            assert facts.keys() == cast("Mapping[str, object]", line["facts"]).keys()


async def test_redacted_lines_hold_nothing_that_anybody_said_and_still_bind_it(golden_runs: Path) -> None:
    whole = await exported(golden_runs, options=RAW)
    redacted = await exported(golden_runs, options=LineOptions(raw=True, redact=True))
    for full, less in zip(whole, redacted, strict=True):
        content = base64.b64decode(cast("Mapping[str, str]", full["raw"])["content"])
        assert cast("Mapping[str, str]", less["raw"])["content_sha256"] == hashlib.sha256(content).hexdigest()
        assert less["content"] == ({"$withheld": True} if content else None)
        assert less["facts"] == full["facts"]
    assert "It rains on Mondays" in json.dumps(whole)
    assert "It rains on Mondays" not in json.dumps(redacted)


async def test_a_runs_salt_is_told_only_with_the_stored_bytes(golden_runs: Path) -> None:
    def salts(lines: list[Line]) -> list[object]:
        submitted = [line for line in lines if line["type"] == "run.submitted"]
        return [cast("Mapping[str, object]", line["content"])["salt"] for line in submitted]

    assert set(map(str, salts(await exported(golden_runs)))) == {"{'$withheld': True}"}
    assert all("$bytes" in str(salt) for salt in salts(await exported(golden_runs, options=RAW)))


async def test_a_run_brings_its_sub_agents_and_what_they_were_told(golden_runs: Path) -> None:
    run = "01KDVDQ4K08R1PCMZZ5184GMN6"
    lines = await exported(golden_runs, Subject("run", run))
    streams = {str(line["stream"]) for line in lines}
    assert {f"run/{run}", f"run/{run}~0.0", f"run/{run}~0.1"} <= streams
    pinned = {
        f"definition/{cast('Mapping[str, object]', line['facts'])['definition']}"
        for line in lines
        if line["type"] == "run.started"
    }
    assert streams == {f"run/{run}", f"run/{run}~0.0", f"run/{run}~0.1"} | pinned
    positions = [line["position"] for line in lines]
    assert positions == sorted(cast("list[int]", positions))


async def test_a_session_brings_all_of_its_turns(golden_runs: Path) -> None:
    lines = await exported(golden_runs, Subject("session", "cust-1"))
    streams = {str(line["stream"]) for line in lines}
    turns = {
        f"run/{cast('Mapping[str, object]', line['facts'])['run']}" for line in lines if line["type"] == "turn.queued"
    }
    assert len(turns) == 5
    assert turns | {"session/cust-1"} <= streams


async def test_standing_rules_come_with_the_runs_that_they_let_through(golden_runs: Path) -> None:
    whole = await exported(golden_runs)
    ruled = next(
        str(line["stream"]).removeprefix("run/")
        for line in whole
        if cast("Mapping[str, Mapping[str, object]]", line["facts"]).get("grounds", {}).get("rules")
    )
    lines = await exported(golden_runs, Subject("run", ruled))
    told = [line for line in lines if line["stream"] == "system/approvals"]
    assert told
    # Those of other rules, which tell of other people's calls, do not come with them.
    assert {cast("Mapping[str, str]", line["facts"])["rule"] for line in told} == {
        rule
        for line in lines
        for rule in cast("Mapping[str, Mapping[str, list[str]]]", line["facts"]).get("grounds", {}).get("rules", [])
    }


async def test_values_kept_apart_come_with_the_record(tmp_path: Path) -> None:
    text = "long " * 20_000
    path = tmp_path / "large.db"
    async with Journal.open(path, registry=REGISTRY) as journal:
        await journal.append("notes/1", [Note(1, text)])
    (line,) = await exported(path, options=RAW)
    assert text in json.dumps(line["content"])
    raw = cast("Mapping[str, Mapping[str, str]]", line["raw"])
    assert [hashlib.sha256(base64.b64decode(data)).hexdigest() for data in raw["values"].values()] == list(
        raw["values"]
    )


async def test_sealed_content_is_said_to_be_erased(golden_runs: Path) -> None:
    async with Journal.open(golden_runs) as journal:
        record = await anext(aiter(journal.read_all()))
        sealed = attrs.evolve(record, key_id="key-1", content=b"nobody can read this")
        sealed = attrs.evolve(sealed, leaf=leaf_digest(journal.id, sealed))
        assert record_object(journal.id, sealed)["content"] == {"$erased": True}


def _alter(path: Path, position: int) -> None:
    database = sqlite3.connect(path)
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    database.execute("UPDATE events SET facts = x'81a161c3' WHERE position = ?", (position,))
    database.commit()
    database.close()


async def test_a_damaged_record_ends_the_export_or_is_marked(golden_runs: Path) -> None:
    _alter(golden_runs, 40)
    with pytest.raises(JournalCorrupt) as caught:
        await exported(golden_runs)
    assert caught.value.position == 40
    lines = await exported(golden_runs, options=LineOptions(keep_going=True))
    assert len(lines) == 1012
    assert [line["position"] for line in lines if "problem" in line] == [40]
    validator = Draft202012Validator(record_schema())
    assert all(validator.is_valid(line) for line in lines)


COLUMNS = ["stream_id", "version", "type", "schema", "recorded_at", "wake_at", "meta", "facts", "content", "leaf"]
VALUES = [None, 0, -1, 2**62, 1.5, "text", "session.opened", b"", b"\x80", b"\x81\xa1a\xc3"]


@pytest.mark.parametrize("column", COLUMNS)
def test_whatever_stands_in_a_column_is_an_error_in_one_line_or_told(
    golden_runs: Path, tmp_path: Path, column: str
) -> None:
    run = ["--run", "01KDVDQ4K08R1PCMZZ5184GMN6"]
    for number, value in enumerate(VALUES):
        path = tmp_path / f"{number}.db"
        shutil.copy(golden_runs, path)
        database = sqlite3.connect(path)
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        with suppress(sqlite3.IntegrityError):
            database.execute(f"UPDATE events SET {column} = ? WHERE position = 8", (value,))
        database.commit()
        database.close()
        for options in ([], ["--keep-going", "--raw"], ["--format", "html", "--no-verify"]):
            done = called("export", path, *run, *options)
            assert done.returncode in ({0, 1} if "--raw" in options else {0, 5}), (value, options, done.stderr)
            assert done.returncode == 0 or done.stderr.startswith("trouper: position 8: ")
            assert done.returncode != 5 or complaint(done)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("$bytes"), inner),
    )
)
def test_no_two_values_are_written_alike(value: object) -> None:
    def back(written: object) -> object:
        if isinstance(written, dict):
            if written.keys() == {"$bytes"}:
                return base64.b64decode(written["$bytes"])
            return {key.removeprefix("$"): back(item) for key, item in written.items()}
        return [back(item) for item in written] if isinstance(written, list) else written

    written = json.loads(json.dumps(jsonable(value)))  # type: ignore[arg-type]
    assert back(written) == value


# ---- the command


def test_the_command_writes_a_file_whole_and_overwrites_none(golden_runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    before = golden_runs.read_bytes()
    told = json.loads(ok_called("export", golden_runs, "--session", "cust-1", "--out", out, "--json"))
    assert told["records"] == len(out.read_text().splitlines())
    assert out.read_text() == ok_called("export", golden_runs, "--session", "cust-1")
    done = called("export", golden_runs, "--out", out)
    assert done.returncode == 4
    assert "nothing is overwritten" in complaint(done)
    assert golden_runs.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"runs.db", "records.jsonl"}


def test_what_cannot_be_exported_is_said_in_a_line(golden_runs: Path, tmp_path: Path) -> None:
    assert called("export", golden_runs, "--run", "nobody").returncode == 3
    assert called("export", golden_runs, "--session", "nobody").returncode == 3
    assert called("export", golden_runs, "--run", "x", "--session", "y").returncode == 2
    broken = tmp_path / "broken.db"
    shutil.copy(GOLDEN / "runs-1.db", broken)
    _alter(broken, 40)
    done = called("export", broken, "--out", tmp_path / "none.jsonl")
    assert done.returncode == 5
    assert "position 40" in complaint(done)
    assert not (tmp_path / "none.jsonl").exists()
    kept = called("export", broken, "--keep-going")
    assert (kept.returncode, "position 40" in complaint(kept), len(objects(kept.stdout))) == (1, True, 1012)


def test_an_export_can_go_on_where_the_last_one_ended(golden_runs: Path) -> None:
    lines = objects(ok_called("export", golden_runs, "--after", "1000"))
    assert [line["position"] for line in lines] == list(range(1001, 1013))


def test_meta_is_read_as_stored(golden_runs: Path) -> None:
    line = objects(ok_called("export", golden_runs, "--raw", "--after", "1011"))[0]
    raw = cast("Mapping[str, str]", line["raw"])
    assert unpack_map(base64.b64decode(raw["meta"])) == line["meta"]


NOBODYS = "01KDVDQ4K08R1PCMZZ5184GMN6"
RULED = "01KE0VAJ10CPKWDP5886CGTN1N"
OF_RULES = "stream_id = (SELECT id FROM streams WHERE name = 'system/approvals')"


@pytest.mark.parametrize(
    ("run", "change"),
    [
        (NOBODYS, "UPDATE events SET position = 0 WHERE position = 5"),
        (NOBODYS, "UPDATE events SET position = -5 WHERE position = 5"),
        (NOBODYS, "UPDATE events SET position = 4611686018427387904 WHERE position = 5"),
        (NOBODYS, "UPDATE events SET version = 1000000 WHERE position = 5"),
        (RULED, f"UPDATE events SET facts = x'80' WHERE {OF_RULES}"),
    ],
)
def test_no_damaged_record_of_a_run_is_left_out(golden_runs: Path, run: str, change: str) -> None:
    whole = objects(ok_called("export", golden_runs, "--run", run))
    assert tampered(golden_runs, change)
    assert called("export", golden_runs, "--run", run).returncode == 5
    kept = called("export", golden_runs, "--run", run, "--keep-going")
    lines = objects(kept.stdout)
    assert (kept.returncode, bool(kept.stderr)) == (1, True)
    assert [line for line in lines if "problem" in line]
    # All that is good is there.
    assert len([line for line in lines if line in whole]) >= len(whole) - (2 if run == NOBODYS else 9)
