"""The arithmetic of the program that checks bundles, held against the journal's own and against others' vectors."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from tests.journal_format.test_notes import OTHERWISE, SMALL

from trouper.audit import verify_forms
from trouper_journal import Value, plain_digest
from trouper_journal.proofs import inclusion_proof


@pytest.mark.parametrize(
    ("public", "message", "signature"),
    [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
        (
            "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
        ),
    ],
)  # fmt: skip
def test_ed25519_by_the_vectors_of_rfc_8032(public: str, message: str, signature: str) -> None:
    key = bytes.fromhex(public)
    assert verify_forms.is_signed(key, bytes.fromhex(message), bytes.fromhex(signature))
    assert not verify_forms.is_signed(key, bytes.fromhex(message) + b"x", bytes.fromhex(signature))


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=100), st.integers(0, 64 * 8 - 1))
def test_ed25519_agrees_with_another_implementation(seed: bytes, message: bytes, bit: int) -> None:
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public, signature = private.public_key().public_bytes_raw(), private.sign(message)
    assert verify_forms.is_signed(public, message, signature)
    changed = bytearray(signature)
    changed[bit // 8] ^= 1 << bit % 8
    assert not verify_forms.is_signed(public, message, bytes(changed))
    # The same value of S beyond the group's order, which RFC 8032 says to refuse.
    beyond = int.from_bytes(signature[32:], "little") + verify_forms.L
    assert not verify_forms.is_signed(public, message, signature[:32] + beyond.to_bytes(32, "little"))


@pytest.mark.parametrize("public", [*SMALL, *OTHERWISE])
def test_a_key_for_which_anybody_could_sign_is_refused(public: str) -> None:
    data = b"\1" + bytes.fromhex(public)
    identity = hashlib.sha256(b"w\n" + data).digest()[:4].hex()
    with pytest.raises(verify_forms.Bad, match="weak"):
        verify_forms.parse_key(f"w+{identity}+{base64.b64encode(data).decode()}")


@given(st.integers(1, 40), st.data())
def test_inclusion_agrees_with_the_journal(size: int, data: st.DataObject) -> None:
    leaves = [hashlib.sha256(bytes([number])).digest() for number in range(size)]
    index = data.draw(st.integers(0, size - 1))
    path = list(inclusion_proof(leaves, index))
    roots = {
        verify_forms.root_of(leaves[each], each, size, list(inclusion_proof(leaves, each))) for each in range(size)
    }
    assert roots == {verify_forms.root_of(leaves[index], index, size, path)}
    for wrong in (path[:-1], [*path, bytes(32)]):
        if wrong != path:
            with pytest.raises(verify_forms.Bad):
                verify_forms.root_of(leaves[index], index, size, wrong)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_the_form_that_digests_are_taken_over_is_the_journals(value: Value) -> None:
    assert hashlib.sha256(verify_forms.packed(value)).digest() == plain_digest(value)


@pytest.mark.parametrize("size", [15, 16, 31, 32, 255, 256, 65535, 65536])
def test_the_form_of_long_values_is_the_journals(size: int) -> None:
    for value in ("x" * size, [None] * size, {str(number): number for number in range(size)}):
        assert hashlib.sha256(verify_forms.packed(value)).digest() == plain_digest(value)
