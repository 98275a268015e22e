"""Checkpoints of a journal: what was signed must still be there, and what contradicts it is found and named."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import sys
from pathlib import Path

import pytest
from tests.journal.signed_log import KEY, REGISTRY, Counted, journal_of

from trouper_journal import Journal, JournalCorrupt, Verification
from trouper_journal.proofs import (
    InvalidProof,
    check_consistency,
    check_inclusion,
    prove_growth,
    prove_inclusion,
    roots_at,
)
from trouper_journal.signing import (
    Checkpoint,
    CheckpointFile,
    CheckpointMismatch,
    InvalidKey,
    InvalidNote,
    MissingExtra,
    Note,
    SignedCheckpoint,
    cosign,
    new_key,
    open_checkpoint,
    read_key,
    read_public_key,
    sign_checkpoint,
    sign_head,
    verify_signed,
    write_key,
)


async def signed_of(count: int, *, other_from: int = 10**9) -> SignedCheckpoint:
    async with journal_of(count, other_from=other_from) as journal:
        return await sign_head(journal, KEY)


async def grade(count: int, *signed: SignedCheckpoint, other_from: int = 10**9) -> Verification:
    async with journal_of(count, other_from=other_from) as journal:
        return await verify_signed(journal, signed)


async def test_a_record_is_proved_to_whoever_knows_the_root() -> None:
    async with journal_of(20) as journal:
        proof = await prove_inclusion(journal, [3, 20, 3], size=20)
        head = await sign_head(journal, KEY)
    assert (proof.size, proof.root) == (20, head.checkpoint.root)
    assert sorted(proof.paths) == [3, 20]
    for position, path in proof.paths.items():
        check_inclusion(proof.leaves[position], position - 1, 20, path, head.checkpoint.root)
    with pytest.raises(InvalidProof):
        check_inclusion(proof.leaves[3], 3, 20, proof.paths[3], head.checkpoint.root)
    async with journal_of(20) as journal:
        with pytest.raises(ValueError, match="the journal has 20 records, not 21"):
            await prove_inclusion(journal, [3], size=21)
        with pytest.raises(ValueError, match="a tree of 20 leaves has none at index 20"):
            await prove_inclusion(journal, [21])


async def test_growth_is_proved_between_any_two_sizes() -> None:
    async with journal_of(9) as journal:
        roots = await roots_at(journal, range(12))
        assert sorted(roots) == list(range(10))
        for new in range(10):
            for old in range(new + 1):
                growth = await prove_growth(journal, old, new)
                assert (growth.old_root, growth.new_root) == (roots[old], roots[new])
                check_consistency(old, new, growth.path, roots[old], roots[new])


async def test_the_grade_says_that_what_was_signed_is_there() -> None:
    found = await grade(9, await signed_of(4), await signed_of(7), await signed_of(0))
    assert (found.grade, found.ok) == ("matches checkpoint", True)
    assert [(each.size, each.status) for each in found.checkpoints] == [(0, "matches"), (4, "matches"), (7, "matches")]
    assert (await grade(9)).grade == "self-consistent"
    assert (found.signed, (await grade(9)).signed) == (7, 0)


async def test_a_checkpoint_of_no_records_says_nothing_of_those_that_follow() -> None:
    for count in (0, 5):
        found = await grade(count, await signed_of(0))
        assert (found.grade, found.ok, found.signed) == ("self-consistent", True, 0)
        assert [each.status for each in found.checkpoints] == ["matches"]


async def test_a_journal_that_was_cut_is_found() -> None:
    found = await grade(5, await signed_of(4), await signed_of(7))
    assert (found.grade, found.ok) == ("inconsistent", False)
    assert [each.status for each in found.checkpoints] == ["matches", "missing"]
    assert [problem.kind for problem in found.problems] == ["checkpoint"]
    assert "signed 7 records, the journal has 5: the last are missing" in found.problems[0].message


async def test_a_journal_that_was_made_anew_is_found_though_it_agrees_with_itself() -> None:
    assert (await grade(9, other_from=6)).grade == "self-consistent"
    found = await grade(9, await signed_of(4), await signed_of(7), other_from=6)
    assert found.grade == "inconsistent"
    assert [each.status for each in found.checkpoints] == ["matches", "changed"]
    assert "one of the positions 5 to 7 holds something else" in found.problems[0].message
    last = await grade(9, await signed_of(5), await signed_of(6), other_from=6)
    assert last.problems[0].position == 6


async def test_a_split_view_is_named() -> None:
    found = await grade(9, await signed_of(7), await signed_of(7, other_from=6))
    assert {"split", "checkpoint"} == {problem.kind for problem in found.problems}
    assert "split view: example.com/desk signed two different histories of 7 records" in found.problems[0].message


async def test_nothing_is_signed_that_contradicts_what_was_signed() -> None:
    earlier = [(await signed_of(7)).checkpoint]
    async with journal_of(9) as journal:
        assert (await sign_head(journal, KEY, earlier)).checkpoint.size == 9
    async with journal_of(5) as journal:
        with pytest.raises(CheckpointMismatch, match="7 records were signed, the journal has 5") as caught:
            await sign_head(journal, KEY, earlier)
        assert caught.value.size == 7
    async with journal_of(9, other_from=7) as journal:
        with pytest.raises(CheckpointMismatch, match="the first 7 records are not those that were signed"):
            await sign_head(journal, KEY, earlier)


async def test_witnesses_raise_the_grade_by_quorum() -> None:
    signed = await signed_of(7)
    witnesses = [new_key(f"witness.example/{number}", witness=True) for number in range(2)]
    lines = [cosign(signed.checkpoint, key, 1_700_000_000) for key in witnesses]
    note = Note(signed.note.text, (*signed.note.signatures, *lines))
    opened = open_checkpoint(note, KEY.verifier, [key.verifier for key in witnesses])
    async with journal_of(9) as journal:
        assert (await verify_signed(journal, [opened])).grade == "witnessed"
        assert (await verify_signed(journal, [opened], quorum=3)).grade == "matches checkpoint"
        assert (await verify_signed(journal, [signed])).grade == "matches checkpoint"


async def test_damage_is_inconsistent_whatever_was_signed(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "j.db", registry=REGISTRY) as journal:
        await journal.append("s", [Counted(1), Counted(2)])
        signed = await sign_head(journal, KEY)
    with sqlite3.connect(tmp_path / "j.db") as database:
        database.execute("DROP TRIGGER events_update")
        database.execute("UPDATE events SET label = 'x' WHERE position = 1")
    database.close()
    async with Journal.open(tmp_path / "j.db", registry=REGISTRY) as journal:
        found = await verify_signed(journal, [signed])
    assert found.grade == "inconsistent"
    assert [problem.kind for problem in found.problems][:2] == ["checkpoint", "leaf"]


# ---- files


def test_a_private_key_is_for_its_owner_only(tmp_path: Path) -> None:
    write_key(path := tmp_path / "key", KEY)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path) == KEY
    with pytest.raises(FileExistsError):
        write_key(path, new_key("other"))
    assert read_key(path) == KEY
    path.chmod(0o640)
    with pytest.raises(InvalidKey, match="others can read the private key"):
        read_key(path)
    path.chmod(0o600)
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidKey, match="not text"):
        read_key(path)


def test_a_public_key_is_given_as_text_or_file(tmp_path: Path) -> None:
    (path := tmp_path / "key.pub").write_text(f"{KEY.verifier}\n")
    assert read_public_key(str(path)) == read_public_key(str(KEY.verifier)) == KEY.verifier
    with pytest.raises(InvalidKey):
        read_public_key(str(tmp_path / "nothing"))


def checkpoint_of(size: int) -> SignedCheckpoint:
    return sign_checkpoint(Checkpoint(KEY.name, size, bytes(32)), KEY)


def test_a_history_is_only_added_to(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "history")
    assert file.read() == []
    file.append(checkpoint_of(1))
    first = Path(file.path).read_bytes()
    assert first.decode() == str(checkpoint_of(1)), "one alone is as any tool reads it"
    file.append(checkpoint_of(2))
    assert Path(file.path).read_bytes().startswith(first)
    assert file.read() == [checkpoint_of(1).note, checkpoint_of(2).note]

    def refuse(notes: list[Note]) -> None:
        assert len(notes) == 2
        raise InvalidNote("no")

    with pytest.raises(InvalidNote, match="no"):
        file.append(checkpoint_of(3), refuse)
    assert len(file.read()) == 2


def test_cosignatures_are_added_to_the_last_checkpoint(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "history")
    last = checkpoint_of(2)
    file.append(checkpoint_of(1))
    file.append(last)
    line = cosign(last.checkpoint, new_key("w", witness=True), 1_700_000_000)
    with_line = SignedCheckpoint(last.checkpoint, Note(last.note.text, (*last.note.signatures, line)))
    file.add_cosignatures(with_line)
    assert file.read() == [checkpoint_of(1).note, with_line.note]
    with pytest.raises(InvalidNote, match="another checkpoint at its end"):
        file.add_cosignatures(checkpoint_of(1))


def test_a_history_that_is_cut_off_is_named_with_its_file(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "history")
    file.append(checkpoint_of(1))
    os.truncate(file.path, 60)
    with pytest.raises(InvalidNote, match=f"{file.path}: .*cut off"):
        file.read()
    with pytest.raises(InvalidNote, match="cut off"):
        file.append(checkpoint_of(2))
    assert os.path.getsize(file.path) == 60
    Path(file.path).write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidNote, match="not text"):
        file.read()


def test_what_has_no_end_is_no_history() -> None:
    with pytest.raises(InvalidNote, match="is no history of checkpoints: it has more than"):
        CheckpointFile("/dev/zero").read()


async def test_a_missing_leaf_is_corruption(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "j.db", registry=REGISTRY) as journal:
        await journal.append("s", [Counted(1), Counted(2), Counted(3)])
    with sqlite3.connect(tmp_path / "j.db") as database:
        database.execute("DROP TRIGGER events_delete")
        database.execute("DELETE FROM events WHERE position = 2")
    database.close()
    async with Journal.open(tmp_path / "j.db", registry=REGISTRY) as journal:
        with pytest.raises(JournalCorrupt, match="position 2: the leaf is missing"):
            await prove_inclusion(journal, [1])


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(MissingExtra, match="pip install cryptography"):
        checkpoint_of(1)


def test_a_checkpoint_for_which_there_is_no_room_leaves_the_history_as_it_was(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "history")
    file.append(checkpoint_of(1))
    before = Path(file.path).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        # Room for a part of it, as on a disk that is nearly full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))
        with pytest.raises(OSError, match="too large"):
            file.append(checkpoint_of(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert Path(file.path).read_bytes() == before
    file.append(checkpoint_of(2))
    assert len(file.read()) == 2
