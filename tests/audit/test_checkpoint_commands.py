"""``keygen``, ``checkpoint``, ``prove``, and ``verify`` beside checkpoints."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import cast

import pytest
import trio
from tests.cli.program import ROOT, JsonObject, called, complaint, ok_called, one_object

from trouper_journal import EMPTY_RANGE, Journal
from trouper_journal.proofs import check_consistency, check_inclusion
from trouper_journal.signing import Checkpoint, open_checkpoint, read_key, read_public_key, sign_checkpoint


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "tests" / "golden" / "journal-1.db", path := tmp_path / "j.db")
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    ok_called("keygen", path := tmp_path / "key", "--name", "example.com/desk")
    return path


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    """What the program complains of, having ended with this code."""
    assert done.returncode == code, done.stderr
    return complaint(done)


def public(key: Path) -> str:
    return f"{key}.pub"


def hashes(found: JsonObject, name: str) -> list[bytes]:
    value = found[name]
    assert isinstance(value, list)
    return [bytes.fromhex(each) for each in value]


def data(found: JsonObject, name: str) -> bytes:
    value = found[name]
    assert isinstance(value, str)
    return bytes.fromhex(value)


def problems(found: JsonObject) -> list[tuple[str, str]]:
    """Kind and message of what a verification has found."""
    listed = found["problems"]
    assert isinstance(listed, list)
    return [(each["kind"], each["message"]) for each in listed]


def changed(journal: Path, *statements: str) -> None:
    """Change a journal as somebody could who can write the file."""
    with sqlite3.connect(journal) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
    database.close()


def test_a_key_is_made_once_and_is_its_owners(tmp_path: Path, journal: Path) -> None:
    path = tmp_path / "key"
    printed = ok_called("keygen", path, "--journal", journal)
    assert printed == Path(public(path)).read_text("utf-8")
    assert printed.startswith("trouper/")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "is there already" in refused(called("keygen", path, "--name", "x"), 4)
    assert "--name" in refused(called("keygen", tmp_path / "other"), 2)
    Path(public(path)).unlink()
    assert "a key of trouper/" in refused(called("keygen", path, "--name", "x"), 4)
    assert "a key of trouper/" in refused(called("keygen", path, "--journal", journal, "--witness"), 4)
    assert ok_called("keygen", path, "--journal", journal) == printed == Path(public(path)).read_text("utf-8")
    assert Path(public(path)).stat().st_mode & 0o777 == 0o644
    made = one_object(ok_called("keygen", tmp_path / "w", "--name", "w", "--witness", "--json"))
    assert made["witness"] is True
    assert "is a witness's" in refused(called("checkpoint", journal, "--key", tmp_path / "w"), 2)
    assert "no private key" in refused(called("checkpoint", journal, "--key", public(path)), 2)
    path.chmod(0o640)
    assert "others can read the private key" in refused(called("checkpoint", journal, "--key", path), 2)


def test_a_checkpoint_is_printed_and_kept_beside_the_journal(journal: Path, key: Path) -> None:
    printed = ok_called("checkpoint", journal, "--key", key)
    kept = Path(f"{journal}.checkpoints")
    assert kept.read_text("utf-8") == printed
    signed = open_checkpoint(printed, read_public_key(public(key)))
    assert (signed.checkpoint.origin, signed.checkpoint.size) == ("example.com/desk", 11)
    again = one_object(ok_called("checkpoint", journal, "--key", key, "--json"))
    assert (again["added"], again["checkpoint"]) == (False, printed)
    assert kept.read_text("utf-8") == printed


def test_verify_says_that_the_journal_is_the_one_that_was_signed(journal: Path, key: Path, tmp_path: Path) -> None:
    ok_called("checkpoint", journal, "--key", key, "--out", out := tmp_path / "kept")
    found = one_object(ok_called("verify", journal, "--checkpoint", out, "--pub", public(key), "--json"))
    assert (found["grade"], found["ok"]) == ("matches checkpoint", True)
    first, _, third, _ = ok_called("verify", journal, "--checkpoint", out, "--pub", public(key)).splitlines()
    assert first.startswith("matches checkpoint of 11 records: 11 records")
    assert third == "1 checkpoint by example.com/desk, the last of 11 records"
    assert "there are no checkpoints in" in refused(called("verify", journal, "--pub", public(key)), 3)
    assert "--pub" in refused(called("verify", journal, "--checkpoint", out), 2)
    witness = ok_called("keygen", tmp_path / "w", "--name", "w", "--witness").strip()
    asked = ("--witness", witness, "--quorum", "1")
    done = called("verify", journal, "--checkpoint", out, "--pub", public(key), *asked, "--json")
    found = one_object(done.stdout)
    assert (done.returncode, found["ok"], found["grade"]) == (1, False, "matches checkpoint")
    assert problems(found) == [
        ("witness", "fewer than 1 of the witnesses that are trusted have signed the last checkpoint")
    ]


def sign_early(journal: Path, key: Path, out: Path, size: int) -> Path:
    """A file with the checkpoint that the key signed when the journal had so many records."""
    found = one_object(ok_called("prove", journal, "--from", str(size)))
    checkpoint = Checkpoint("example.com/desk", size, data(found, "old_root"))
    out.write_text(str(sign_checkpoint(checkpoint, read_key(key))), "utf-8")
    return out


def test_the_grade_says_of_how_many_records_it_is(journal: Path, key: Path, tmp_path: Path) -> None:
    early = sign_early(journal, key, tmp_path / "kept", 7)
    verifying = ("verify", journal, "--checkpoint", early, "--pub", public(key))
    first, second, *_ = ok_called(*verifying).splitlines()
    assert first.startswith("matches checkpoint of 7 records: 11 records")
    assert second == (
        "the first 7 records are those that were signed; what follows agrees with itself, and nobody has signed it: 4"
    )
    assert one_object(ok_called(*verifying, "--json"))["signed"] == 7
    assert called(*verifying, "--at-least", "7").returncode == 0
    done = called(*verifying, "--at-least", "8", "--json")
    assert done.returncode == 1
    assert problems(one_object(done.stdout)) == [
        ("checkpoint", "the last checkpoint is of 7 records, not of at least 8")
    ]
    assert "--pub" in refused(called("verify", journal, "--at-least", "8"), 2)


def test_a_witness_counts_once_however_often_it_is_named(journal: Path, key: Path, tmp_path: Path) -> None:
    witness = tmp_path / "w"
    text = ok_called("keygen", witness, "--name", "witness.example/w", "--witness").strip()
    (tmp_path / "ours.py").write_text(
        "from trouper_journal.signing import FileWitness, read_key, read_public_key\n"
        f"w = FileWitness({str(tmp_path / 'seen')!r}, read_key({str(witness)!r}), read_public_key({public(key)!r}))\n"
    )
    asked = ["--witness-py", f"{tmp_path}/ours.py:w"]
    note = ok_called("checkpoint", journal, "--key", key, *asked, *asked)
    assert note.count("— witness.example/w ") == 1
    named = ["--witness", text, "--witness", public(witness)]
    found = one_object(ok_called("verify", journal, "--pub", public(key), *named, "--json"))
    assert found["grade"] == "witnessed"
    assert [each["witnesses"] for each in cast("list[JsonObject]", found["checkpoints"])] == [["witness.example/w"]]
    done = called("verify", journal, "--pub", public(key), *named, "--quorum", "2")
    assert "--quorum 2 needs as many witnesses: 1 key given" in refused(done, 2)


def test_verify_finds_another_history_that_agrees_with_itself(journal: Path, key: Path, tmp_path: Path) -> None:
    ok_called("checkpoint", journal, "--key", key, "--out", out := tmp_path / "kept")
    shutil.copy(ROOT / "tests" / "golden" / "runs-1.db", other := tmp_path / "other.db")
    assert ok_called("verify", other).startswith("self-consistent")
    done = called("verify", other, "--checkpoint", out, "--pub", public(key))
    assert done.returncode == 1
    assert "the first 11 records are not those that example.com/desk signed" in done.stdout
    assert "inconsistent" in done.stdout


def test_verify_believes_no_checkpoint_that_the_pinned_key_has_not_signed(
    journal: Path, key: Path, tmp_path: Path
) -> None:
    ok_called("checkpoint", journal, "--key", key, "--out", out := tmp_path / "kept")
    ok_called("keygen", stranger := tmp_path / "stranger", "--name", "example.com/desk")
    signed = out.read_text("utf-8")
    for text, pinned, complains in (
        (signed, stranger, f"{out}, checkpoint 1: none of the keys that are trusted has signed this"),
        (signed.replace("\n11\n", "\n10\n"), key, "was changed"),
        ("nonsense", key, "the last checkpoint is cut off in the middle"),
    ):
        out.write_text(text, "utf-8")
        done = called("verify", journal, "--checkpoint", out, "--pub", public(pinned))
        assert (done.returncode, done.stderr) == (1, "")
        assert complains in done.stdout.splitlines()[0]
        found = one_object(called("verify", journal, "--checkpoint", out, "--pub", public(pinned), "--json").stdout)
        assert (found["ok"], found["grade"], found["checkpoints"]) == (False, "self-consistent", [])
        ((kind, message),) = problems(found)
        assert kind == "checkpoint"
        assert complains in message
    both = tmp_path / "both"
    ok_called("checkpoint", journal, "--key", stranger, "--out", both)
    both.write_text(f"{signed}\n{both.read_text('utf-8')}", "utf-8")
    done = called("verify", journal, "--checkpoint", both, "--pub", public(key))
    assert done.returncode == 1
    assert f"{both}, checkpoint 2: none of the keys" in done.stdout
    assert "1 checkpoint by example.com/desk" in done.stdout
    done = called("verify", journal, "--checkpoint", out, "--pub", "example.com+00000000+nonsense")
    assert "no public key" in refused(done, 2)


def cut(journal: Path, to: int) -> None:
    """Make a journal again that has only the first records, as somebody could who can write the file."""
    with sqlite3.connect(journal) as database:
        leaves = database.execute("SELECT leaf FROM events WHERE position <= ? ORDER BY position", (to,)).fetchall()
        tree = EMPTY_RANGE.extend(leaf for (leaf,) in leaves)
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("DELETE FROM events WHERE position > ?", (to,))
        database.execute("DELETE FROM keys WHERE last > ?", (to,))
        database.execute("DELETE FROM streams WHERE id > ?", (to,))
        own = "SELECT {} FROM events WHERE stream_id = streams.id ORDER BY version DESC LIMIT 1"
        labelled = own.replace("ORDER", "AND label IS NOT NULL ORDER")
        database.execute(
            f"UPDATE streams SET version = ({own.format('version')}), position = ({own.format('position')}), "
            f"wake_at = ({own.format('wake_at')}), label = ({labelled.format('label')})"
        )
        database.execute("UPDATE head SET position = ?, range = ?", (to, tree.to_bytes()))
    database.close()


def test_a_file_of_keys_that_is_not_there_is_not_taken_for_a_key(journal: Path, key: Path) -> None:
    ok_called("checkpoint", journal, "--key", key)
    public = f"{key}.pub"
    for options in (["--pub", f"{public}s"], ["--pub", public, "--witness", f"{public}s"]):
        refused = called("verify", journal, *options)
        assert (refused.returncode, f"there is no file {public}s" in complaint(refused)) == (3, True), options
    # A private key that was given by mistake is not printed.
    refused = called("verify", journal, "--pub", secret := key.read_text().strip())
    assert refused.returncode == 2
    assert secret not in refused.stderr


def test_a_journal_that_was_cut_is_signed_no_more(journal: Path, key: Path) -> None:
    ok_called("checkpoint", journal, "--key", key)
    cut(journal, 7)
    assert ok_called("verify", journal).startswith("self-consistent: 7 records")
    done = called("checkpoint", journal, "--key", key)
    assert "11 records were signed, the journal has 7" in refused(done, 1)
    done = called("verify", journal, "--pub", public(key))
    assert done.returncode == 1
    assert "example.com/desk signed 11 records, the journal has 7" in done.stdout


@pytest.mark.parametrize(
    ("statement", "complains"),
    [
        ("UPDATE events SET facts = x'80' WHERE position = 3", "position 3: the stored bytes do not have the recorded"),
        ("UPDATE events SET leaf = zeroblob(32) WHERE position = 5", "position 5: the stored bytes do not have the"),
        (
            "UPDATE events SET version = 'x' WHERE position = 3",
            "position 3: a column has a value that cannot be hashed",
        ),
        ("DELETE FROM events WHERE position = 3", "position 4: position 3 is missing before it"),
        ("DELETE FROM events WHERE position = 11", "position 11: the head is at position 11, the last record is at"),
        ("UPDATE head SET range = x'00'", "1 bytes are not a compact range"),
        ("UPDATE head SET position = 9", "position 10: the record stands beyond the head"),
        ("DELETE FROM large", "position 8: the large value"),
        ("UPDATE streams SET version = 9 WHERE name = 'ticket/1'", "the index says version 9"),
    ],
)
@pytest.mark.parametrize("signed_before", [False, True])
def test_nothing_is_signed_that_does_not_verify(
    journal: Path, key: Path, statement: str, complains: str, signed_before: bool
) -> None:
    kept = Path(f"{journal}.checkpoints")
    if signed_before:
        ok_called("checkpoint", journal, "--key", key)
    before = kept.read_bytes() if signed_before else None
    changed(journal, statement)
    said = refused(called("checkpoint", journal, "--key", key), 5)
    assert complains in said
    assert "nothing was signed" in said
    assert (kept.read_bytes() if kept.exists() else None) == before
    assert called("verify", journal).returncode == 1


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM events WHERE position = 11", "the head is at position 11, the last record is at 10"),
        ("UPDATE head SET position = 7", "the head is at position 7, its tree has 11 leaves"),
        ("UPDATE head SET range = x'00'", "1 bytes are not a compact range"),
    ],
)
def test_what_is_wrong_with_the_head_is_told_once(journal: Path, statement: str, told: str) -> None:
    changed(journal, statement)
    found = one_object(called("verify", journal, "--json").stdout)
    assert [message for kind, message in problems(found) if kind == "head"] == [told]


def test_a_record_is_proved_without_showing_it(journal: Path, key: Path) -> None:
    note = ok_called("checkpoint", journal, "--key", key)
    found = one_object(ok_called("prove", journal, "3", "--pub", public(key)))
    signed = open_checkpoint(str(found["checkpoint"]), read_public_key(public(key)))
    assert str(signed) == note
    record = found["record"]
    assert isinstance(record, dict)
    parts = [record["header"], record["meta_sha256"], record["facts_sha256"], record["content_sha256"]]
    leaf = hashlib.sha256(b"\0" + bytes.fromhex("".join(parts))).digest()
    assert leaf.hex() == found["leaf"]
    check_inclusion(leaf, 2, signed.checkpoint.size, hashes(found, "proof"), signed.checkpoint.root)


def test_growth_is_proved_to_whoever_has_two_checkpoints(journal: Path) -> None:
    found = one_object(ok_called("prove", journal, "--from", "4", "--to", "9"))
    check_consistency(4, 9, hashes(found, "proof"), data(found, "old_root"), data(found, "root"))


def test_what_is_not_there_is_not_proved(journal: Path, tmp_path: Path, key: Path) -> None:
    assert "there are 11 records, not 12" in refused(called("prove", journal, "12"), 3)
    assert "the journal has 11 records, not 12" in refused(called("prove", journal, "1", "--to", "12"), 3)
    assert "position of a record" in refused(called("prove", journal), 2)
    shutil.copy(ROOT / "tests" / "golden" / "runs-1.db", other := tmp_path / "other.db")
    ok_called("checkpoint", other, "--key", key, "--out", out := tmp_path / "kept")
    done = called("prove", journal, "1", "--pub", public(key), "--checkpoint", out)
    assert "the journal has 11 records" in refused(done, 3)


@pytest.mark.parametrize(
    ("statement", "complains"),
    [
        ("UPDATE events SET facts = x'80' WHERE position = 3", "position 3: the record is not what its leaf says"),
        (
            "UPDATE streams SET name = x'ff00' WHERE name = 'ticket/1'",
            "position 3: the record is not what its leaf says",
        ),
        ("UPDATE events SET version = 'x' WHERE position = 3", "position 3: the record is not what its leaf says"),
        ("UPDATE events SET leaf = x'00' WHERE position = 5", "position 5: the leaf is missing"),
        ("DELETE FROM events WHERE position = 3", "position 3: the leaf is missing"),
        ("DELETE FROM streams WHERE name = 'ticket/1'", "position 3: the record is not what its leaf says"),
    ],
)
def test_nothing_is_proved_about_a_damaged_record(journal: Path, statement: str, complains: str) -> None:
    changed(journal, statement)
    assert complains in refused(called("prove", journal, "3"), 5)
    assert called("verify", journal).returncode == 1


def test_the_evidence_is_not_written_to(journal: Path, key: Path, tmp_path: Path) -> None:
    ok_called("checkpoint", journal, "--key", key, "--out", out := tmp_path / "kept")
    before = journal.read_bytes(), out.read_bytes()
    for command in (("verify", journal), ("prove", journal, "3")):
        ok_called(*command, "--pub", public(key), "--checkpoint", out)
    assert (journal.read_bytes(), out.read_bytes()) == before
    json.loads(ok_called("prove", journal, "--from", "1"))


def test_an_empty_journal_has_nothing_to_sign(tmp_path: Path, key: Path) -> None:
    async def made() -> None:
        async with Journal.open(tmp_path / "empty.db"):
            pass

    trio.run(made)
    done = called("checkpoint", tmp_path / "empty.db", "--key", key)
    assert "no records yet: there is nothing to sign" in refused(done, 4)
