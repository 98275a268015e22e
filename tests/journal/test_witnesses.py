"""Witnesses cosign what follows from what they have cosigned before, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journal.signed_log import KEY, WITNESS, Standing, ask, journal_of

from trouper_journal.signing import (
    CheckpointFile,
    FileWitness,
    InvalidKey,
    InvalidNote,
    NoteSignature,
    Prove,
    SignedCheckpoint,
    VerifierKey,
    ask_witnesses,
    new_key,
    open_checkpoint,
    read_submission,
    sign_head,
    verify_signed,
    write_submission,
)


def witness_at(path: Path) -> FileWitness:
    return FileWitness(path, WITNESS, KEY.verifier, clock=Standing())


async def test_a_log_that_grows_is_cosigned(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "w")
    for count in (3, 3, 7):
        signed, why = await ask(witness_at(tmp_path / "w"), count)
        assert not why
        assert [(each.name, each.time) for each in signed.witnesses] == [("witness.example/w", 1_700_000_000)]
        assert open_checkpoint(signed.note, KEY.verifier, [WITNESS.verifier]).witnesses == signed.witnesses
    assert [note.text.split("\n")[1] for note in file.read()] == ["3", "7"]
    async with journal_of(9) as journal:
        assert (await verify_signed(journal, [signed])).grade == "witnessed"


async def test_a_log_that_was_cut_or_changed_is_not_cosigned(tmp_path: Path) -> None:
    await ask(witness_at(tmp_path / "w"), 7)
    before = (tmp_path / "w").read_bytes()
    signed, why = await ask(witness_at(tmp_path / "w"), 5)
    assert "7 records were cosigned before, the checkpoint has 5" in why
    assert signed.witnesses == ()
    assert len(signed.note.signatures) == 1
    _, why = await ask(witness_at(tmp_path / "w"), 7, other_from=1)
    assert "split view: another history of 7 records was cosigned before" in why
    _, why = await ask(witness_at(tmp_path / "w"), 9, other_from=1)
    assert "is not the beginning of the tree of 9 leaves" in why
    assert (tmp_path / "w").read_bytes() == before


async def test_a_log_with_another_key_is_not_cosigned(tmp_path: Path) -> None:
    witness = FileWitness(tmp_path / "w", WITNESS, new_key("example.com/desk").verifier)
    _, why = await ask(witness, 3)
    assert "none of the keys that are trusted has signed this" in why
    with pytest.raises(InvalidKey, match="is not a witness's"):
        FileWitness(tmp_path / "w", KEY, KEY.verifier)
    (tmp_path / "no").mkdir()
    _, why = await ask(witness_at(tmp_path / "no"), 3)
    assert why


class Liar:
    """Answers with whatever it was given."""

    def __init__(self, *lines: NoteSignature) -> None:
        self._lines = lines

    @property
    def key(self) -> VerifierKey:
        return WITNESS.verifier

    async def add_checkpoint(self, checkpoint: SignedCheckpoint, prove: Prove) -> Sequence[NoteSignature]:
        return self._lines


async def test_what_a_witness_answers_is_checked(tmp_path: Path) -> None:
    other, _ = await ask(witness_at(tmp_path / "w"), 3)
    _, why = await ask(Liar(*other.note.signatures[1:]), 4)
    assert "is not one of this checkpoint" in why
    _, why = await ask(Liar(), 4)
    assert "without a signature of its key" in why
    _, why = await ask(Liar(NoteSignature("witness.example/w", WITNESS.verifier.key_id, b"short")), 4)
    assert "does not have the length" in why


async def test_one_that_refuses_keeps_nobody_else_from_signing(tmp_path: Path) -> None:
    async with journal_of(4) as journal:
        signed = await sign_head(journal, KEY)
        found = await ask_witnesses(journal, signed, [Liar(), witness_at(tmp_path / "w")])
    assert [name for name, _ in found.refusals] == ["witness.example/w"]
    assert [each.name for each in found.checkpoint.witnesses] == ["witness.example/w"]


class Forgetful(Liar):
    """Asks for a proof from beyond the checkpoint."""

    async def add_checkpoint(self, checkpoint: SignedCheckpoint, prove: Prove) -> Sequence[NoteSignature]:
        await prove(checkpoint.checkpoint.size + 1)
        return ()


async def test_no_proof_is_made_from_what_is_not_there() -> None:
    _, why = await ask(Forgetful(), 4)
    assert "the witness has seen 5 records, more than the 4 of the checkpoint" in why


async def test_a_submission_is_that_of_c2sp() -> None:
    async with journal_of(4) as journal:
        note = (await sign_head(journal, KEY)).note
    text = write_submission(3, [bytes(32), b"\1" * 32], note)
    assert text.startswith("old 3\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nAQEB")
    assert text.endswith(f"\n\n{note}")
    assert read_submission(text) == (3, (bytes(32), b"\1" * 32), note)
    assert read_submission(write_submission(0, [], note)) == (0, (), note)
    for bad in ("", "old\n\n", "old 03\n\n", "old x\n\n", "old 1\nAA\n\n", "new 1\n\n", "old 1\nAAAA\n\n"):
        with pytest.raises(InvalidNote):
            read_submission(f"{bad}{note}")
    with pytest.raises(InvalidNote, match="at most 63 hashes"):
        read_submission(write_submission(3, [bytes(32)] * 64, note))


@given(st.text())
def test_any_text_is_a_submission_or_refused(text: str) -> None:
    with pytest.raises(InvalidNote):
        read_submission(text)


async def test_a_history_that_was_added_to_meanwhile_is_not_cosigned_past(tmp_path: Path) -> None:
    class Racing(FileWitness):
        async def add_checkpoint(self, checkpoint: SignedCheckpoint, prove: Prove) -> Sequence[NoteSignature]:
            async def late(old: int) -> Sequence[bytes]:
                await ask(witness_at(tmp_path / "w"), 5)
                return await prove(old)

            return await super().add_checkpoint(checkpoint, late)

    _, why = await ask(Racing(tmp_path / "w", WITNESS, KEY.verifier, clock=Standing()), 4)
    assert "has cosigned another checkpoint meanwhile: ask again" in why
