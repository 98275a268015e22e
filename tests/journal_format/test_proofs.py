"""Proofs are those of RFC 6962, and nothing that is not one passes for one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper_journal import EMPTY_RANGE, JournalError
from trouper_journal.proofs import (
    InvalidProof,
    NodeCollector,
    check_consistency,
    check_inclusion,
    consistency_proof,
    consistency_spans,
    inclusion_proof,
    inclusion_spans,
    root_of_inclusion,
)

# Leaves, audit paths and consistency proofs of Certificate Transparency's reference tests
# (cpp/merkletree/merkle_tree_test.cc in google/certificate-transparency, there counting leaves from 1).
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
LEAVES = [hashlib.sha256(b"\0" + bytes.fromhex(data)).digest() for data in INPUTS]
ROOTS = [EMPTY_RANGE.extend(LEAVES[:size]).root() for size in range(9)]

AUDIT_PATHS = [
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]

CONSISTENCY_PROOFS = [
    (1, 1, []),
    (
        1,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]

trees = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=70)


def root(leaves: Sequence[bytes]) -> bytes:
    return EMPTY_RANGE.extend(leaves).root()


@pytest.mark.parametrize(("index", "size", "path"), AUDIT_PATHS)
def test_audit_paths_are_those_of_certificate_transparency(index: int, size: int, path: list[str]) -> None:
    made = inclusion_proof(LEAVES[:size], index)
    assert [each.hex() for each in made] == path
    check_inclusion(LEAVES[index], index, size, made, ROOTS[size])


@pytest.mark.parametrize(("old", "new", "path"), CONSISTENCY_PROOFS)
def test_consistency_proofs_are_those_of_certificate_transparency(old: int, new: int, path: list[str]) -> None:
    made = consistency_proof(LEAVES[:new], old)
    assert [each.hex() for each in made] == path
    check_consistency(old, new, made, ROOTS[old], ROOTS[new])


def test_every_leaf_and_every_beginning_of_small_trees_is_proved() -> None:
    leaves = [bytes([number]) * 32 for number in range(34)]
    for size in range(1, len(leaves) + 1):
        for index in range(size):
            assert root_of_inclusion(leaves[index], index, size, inclusion_proof(leaves[:size], index)) == root(
                leaves[:size]
            )
        for old in range(size + 1):
            proof = consistency_proof(leaves[:size], old)
            check_consistency(old, size, proof, root(leaves[:old]), root(leaves[:size]))


@given(trees, st.data())
def test_one_pass_collects_many_proofs(leaves: list[bytes], data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, len(leaves)), min_size=1, max_size=4))
    asked = [inclusion_spans(data.draw(st.integers(0, size - 1)), size) for size in sizes]
    asked += [consistency_spans(data.draw(st.integers(0, size)), size) for size in sizes]
    collector = NodeCollector([span for spans in asked for span in spans])
    at = data.draw(st.integers(0, len(leaves)))
    collector.extend(leaves[:at])
    assert collector.root() == root(leaves[:at])
    collector.extend(leaves[at:])
    assert (collector.size, collector.root()) == (len(leaves), root(leaves))
    for spans in asked:
        assert collector.nodes(spans) == tuple(root(leaves[start:stop]) for start, stop in spans)


def test_a_node_that_was_not_collected_is_named() -> None:
    collector = NodeCollector([(2, 4)])
    collector.extend(LEAVES[:3])
    with pytest.raises(ValueError, match=r"\(2, 4\) was not collected from 3 leaves"):
        collector.nodes([(2, 4)])


@given(trees, st.data())
def test_a_changed_leaf_root_path_or_place_is_found(leaves: list[bytes], data: st.DataObject) -> None:
    size = len(leaves)
    index = data.draw(st.integers(0, size - 1))
    proof = list(inclusion_proof(leaves, index))
    parts = [leaves[index], *proof, root(leaves)]
    which, bit = data.draw(st.integers(0, len(parts) - 1)), data.draw(st.integers(0, 255))
    parts[which] = (int.from_bytes(parts[which], "big") ^ 1 << bit).to_bytes(32, "big")
    with pytest.raises(InvalidProof):
        check_inclusion(parts[0], index, size, parts[1:-1], parts[-1])
    for wrong in (proof[:-1], [*proof, bytes(32)]):
        if wrong != proof:
            with pytest.raises(InvalidProof):
                check_inclusion(leaves[index], index, size, wrong, root(leaves))


@given(trees, st.data())
def test_a_history_that_was_changed_is_no_beginning(leaves: list[bytes], data: st.DataObject) -> None:
    size = len(leaves)
    old = data.draw(st.integers(1, size))
    proof = consistency_proof(leaves, old)
    changed = list(leaves)
    where = data.draw(st.integers(0, old - 1))
    changed[where] = hashlib.sha256(changed[where]).digest()
    with pytest.raises(InvalidProof):
        check_consistency(old, size, consistency_proof(changed, old), root(leaves[:old]), root(changed))
    with pytest.raises(InvalidProof):
        check_consistency(old, size, proof, root(changed[:old]), root(leaves))
    with pytest.raises(InvalidProof):
        check_consistency(old, size, [*proof, bytes(32)], root(leaves[:old]), root(leaves))
    if proof:
        with pytest.raises(InvalidProof):
            check_consistency(old, size, proof[:-1], root(leaves[:old]), root(leaves))


def test_the_empty_tree_is_a_beginning_of_every_tree() -> None:
    check_consistency(0, 0, (), ROOTS[0], ROOTS[0])
    check_consistency(0, 8, (), ROOTS[0], ROOTS[8])
    with pytest.raises(InvalidProof):
        check_consistency(0, 8, (), ROOTS[1], ROOTS[8])


@given(st.binary(min_size=32, max_size=32), st.integers(-2, 9), st.integers(-2, 9), st.lists(st.binary(max_size=33)))
def test_any_input_is_refused_by_the_one_error(leaf: bytes, index: int, size: int, path: list[bytes]) -> None:
    with pytest.raises(InvalidProof):
        check_inclusion(leaf, index, size, path, bytes(31))
    with pytest.raises(InvalidProof):
        check_consistency(index, size, path, leaf, bytes(31))


def test_what_is_not_there_cannot_be_proved() -> None:
    for index, size in ((-1, 4), (4, 4), (0, 0)):
        with pytest.raises(ValueError, match=f"a tree of {size} leaves has none at index {index}"):
            inclusion_spans(index, size)
        with pytest.raises(InvalidProof, match=f"a tree of {size} leaves has none at index {index}"):
            root_of_inclusion(bytes(32), index, size, ())
    with pytest.raises(ValueError, match="no beginning of 5 leaves"):
        consistency_spans(5, 4)
    assert issubclass(InvalidProof, JournalError)
