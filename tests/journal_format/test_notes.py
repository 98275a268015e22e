"""Signed notes, keys and checkpoints are those of C2SP: what public tools wrote is read, byte for byte."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper_journal.signing import (
    Checkpoint,
    InvalidKey,
    InvalidNote,
    Note,
    SignatureType,
    SignerKey,
    VerifierKey,
    cosign,
    new_key,
    open_checkpoint,
    sign_checkpoint,
    sign_note,
    split_notes,
    trusted_signatures,
)

# The example of Go's package golang.org/x/mod/sumdb/note.
GO_PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_NOTE = """If you think cryptography is the answer to your problem,
then you don't know what your problem is.

— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
"""

# The example of c2sp.org/signed-note, whose key is published with it.
C2SP_PUBLIC = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
C2SP_NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""

# The example of c2sp.org/tlog-cosignature; its keys are not published.
COSIGNED = """example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
"""  # noqa: E501 -- as published

LOG = new_key("example.com/desk", random=lambda size: b"\1" * size)
WITNESS = new_key("witness.example/w", witness=True, random=lambda size: b"\2" * size)


@pytest.mark.parametrize(("public", "text"), [(GO_PUBLIC, GO_NOTE), (C2SP_PUBLIC, C2SP_NOTE)])
def test_published_notes_verify(public: str, text: str) -> None:
    key = VerifierKey.parse(public)
    assert str(key) == public
    note = Note.parse(text)
    assert str(note) == text
    assert trusted_signatures(note, [key]) == [key]


def test_a_published_private_key_makes_the_published_signature() -> None:
    key = SignerKey.parse(GO_PRIVATE)
    assert key.secret_text() == GO_PRIVATE
    assert str(key.verifier) == GO_PUBLIC
    note = Note.parse(GO_NOTE)
    assert (sign_note(note.text, key),) == note.signatures
    assert GO_PRIVATE.rsplit("+", 1)[1] not in repr(key)
    assert "seed" not in repr(key)


def test_a_published_checkpoint_is_read() -> None:
    note = Note.parse(COSIGNED)
    checkpoint = Checkpoint.parse(note.text)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
    assert str(checkpoint) == note.text
    [_, witness] = note.signatures
    assert (witness.name, int.from_bytes(witness.data[:8], "big")) == ("witness.example.com/w1", 1679315147)


def test_a_checkpoint_is_signed_and_cosigned() -> None:
    signed = sign_checkpoint(Checkpoint("example.com/desk", 7, bytes(32)), LOG)
    note = Note(signed.note.text, (*signed.note.signatures, cosign(signed.checkpoint, WITNESS, 1_700_000_000)))
    found = open_checkpoint(str(note), LOG.verifier, [WITNESS.verifier])
    assert found.checkpoint == signed.checkpoint
    assert [(each.name, each.time) for each in found.witnesses] == [("witness.example/w", 1_700_000_000)]
    assert open_checkpoint(note, LOG.verifier).witnesses == (), "nobody whom nobody trusts"
    with pytest.raises(InvalidNote, match="from the future"):
        open_checkpoint(note, LOG.verifier, [WITNESS.verifier], now=1_600_000_000)


@given(st.integers(0), st.integers(0, 7))
def test_every_flipped_bit_of_a_checkpoint_is_found(where: int, bit: int) -> None:
    signed = sign_checkpoint(Checkpoint("example.com/desk", 7, bytes(32)), LOG)
    cosigned = Note(signed.note.text, (*signed.note.signatures, cosign(signed.checkpoint, WITNESS, 1_700_000_000)))
    data = bytearray(str(cosigned).encode())
    data[where % len(data)] ^= 1 << bit
    try:
        found = open_checkpoint(bytes(data).decode(), LOG.verifier, [WITNESS.verifier])
    except (UnicodeDecodeError, InvalidNote):
        return
    # Only in the name or id of the witness's line can a bit be flipped and the log's own signature stand.
    assert found.checkpoint == signed.checkpoint
    assert found.witnesses == ()


def test_who_has_not_signed_is_not_believed() -> None:
    signed = sign_checkpoint(Checkpoint("example.com/desk", 7, bytes(32)), LOG)
    stranger = new_key("example.com/desk").verifier
    with pytest.raises(InvalidNote, match="none of the keys that are trusted has signed this"):
        open_checkpoint(signed.note, stranger)
    with pytest.raises(InvalidKey, match="is a witness's"):
        open_checkpoint(signed.note, WITNESS.verifier)
    with pytest.raises(InvalidKey, match="is not a witness's"):
        open_checkpoint(signed.note, LOG.verifier, [LOG.verifier])
    with pytest.raises(InvalidKey, match=r"does not sign for example\.com/other"):
        sign_checkpoint(Checkpoint("example.com/other", 7, bytes(32)), LOG)
    other = Checkpoint("example.com/other", 7, bytes(32))
    forged = Note(str(other), (sign_note(str(other), LOG),))
    with pytest.raises(InvalidNote, match=r"does not speak for example\.com/other"):
        open_checkpoint(forged, LOG.verifier)


LINE = "— n AAAAAAA=\n"
NO_NOTES = ["", "\n", "a\n", "a\n\n", "a\n\nb\n", f"\n\n{LINE}", f"a\0b\n\n{LINE}", "a\n\n" + LINE * 101]
NO_NOTES += [
    f"a\n\n{line}" for line in ("— n AAAA\n", "— n AAAAAAA\n", "— n A A\n", "— a+b AAAAAAA=\n", "- n AAAAAAA=\n")
]
NO_NOTES += [f"a\n\n{LINE[:-1]}", f"a\r\n\n{LINE}", f"\ud800\n\n{LINE}", f"{'a' * 1_000_000}\n\n{LINE}"]


@pytest.mark.parametrize("text", NO_NOTES, ids=range(len(NO_NOTES)))
def test_what_is_no_note_is_refused(text: str) -> None:
    with pytest.raises(InvalidNote):
        Note.parse(text)


@pytest.mark.parametrize("size", ["", "01", "-1", "1.0", "١", "9" * 20, "9223372036854775808"])  # noqa: RUF001 -- a digit that is none
def test_what_is_no_size_is_refused(size: str) -> None:
    with pytest.raises(InvalidNote):
        Checkpoint.parse(f"o\n{size}\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (Note.parse, Checkpoint.parse, lambda text: list(split_notes(text))):
        with suppress(InvalidNote):
            read(text)
    for parse in (VerifierKey.parse, SignerKey.parse):
        with pytest.raises(InvalidKey):
            parse(text)


def test_a_key_that_was_changed_or_is_private_is_refused() -> None:
    with pytest.raises(InvalidKey, match="it was changed"):
        VerifierKey.parse(GO_PUBLIC.replace("PeterN", "Petern"))
    with pytest.raises(InvalidKey, match="it was changed"):
        SignerKey.parse(GO_PRIVATE.replace("PeterN", "Petern"))
    with pytest.raises(InvalidKey, match="private key"):
        VerifierKey.parse(GO_PRIVATE)
    with pytest.raises(InvalidKey, match="no private key"):
        SignerKey.parse(GO_PUBLIC)
    for name in ("", "two words", "a+b", "a\nb"):
        with pytest.raises(InvalidKey, match="cannot name a key"):
            new_key(name)


def test_a_witness_has_another_id_for_the_same_key() -> None:
    plain = VerifierKey("w", LOG.verifier.public)
    assert plain.key_id != VerifierKey("w", LOG.verifier.public, SignatureType.COSIGNATURE).key_id


def test_a_history_is_notes_with_blank_lines_between() -> None:
    notes = [sign_checkpoint(Checkpoint("example.com/desk", size, bytes(32)), LOG).note for size in (1, 2, 3)]
    text = "\n".join(map(str, notes))
    assert list(split_notes(text)) == notes
    assert list(split_notes(str(notes[0]))) == notes[:1]
    assert list(split_notes("")) == []
    for end in range(1, len(str(notes[0])) - 1):
        with pytest.raises(InvalidNote):
            list(split_notes(str(notes[0])[:end]))


SMALL = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
"""The eight points of small order."""
OTHERWISE = [
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]
"""The same, and others, written as they must not be."""


@pytest.mark.parametrize("public", [*SMALL, *OTHERWISE])
@pytest.mark.parametrize("kind", list(SignatureType))
def test_a_key_for_which_anybody_could_sign_is_refused(public: str, kind: SignatureType) -> None:
    with pytest.raises(InvalidKey, match="weak"):
        VerifierKey("w", bytes.fromhex(public), kind)
