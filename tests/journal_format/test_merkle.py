"""The Merkle tree is that of RFC 6962, however it grows."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper_journal import EMPTY_RANGE, CompactRange, JournalCorrupt

# Leaves and roots of Certificate Transparency's reference tests (merkle_tree_test in google/certificate-transparency).
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]

leaf = st.binary(min_size=32, max_size=32)


def naive_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, over leaf hashes."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + naive_root(leaves[:split]) + naive_root(leaves[split:])).digest()


@pytest.mark.parametrize("size", range(1, 9))
def test_roots_are_those_of_certificate_transparency(size: int) -> None:
    leaves = [hashlib.sha256(b"\x00" + bytes.fromhex(data)).digest() for data in INPUTS[:size]]
    assert EMPTY_RANGE.extend(leaves).root().hex() == ROOTS[size - 1]


def test_the_empty_tree_has_the_hash_of_nothing() -> None:
    assert EMPTY_RANGE.root() == hashlib.sha256(b"").digest()


@given(st.lists(st.lists(leaf, max_size=20), max_size=8))
def test_growth_in_steps_gives_the_root_over_all_leaves(steps: list[list[bytes]]) -> None:
    grown, leaves = EMPTY_RANGE, []
    for step in steps:
        grown = grown.extend(step)
        leaves += step
        assert grown.size == len(leaves)
        assert grown.root() == naive_root(leaves)
        assert CompactRange.from_bytes(grown.to_bytes()) == grown


@given(st.lists(leaf, max_size=70))
def test_a_range_stays_small(leaves: list[bytes]) -> None:
    assert len(EMPTY_RANGE.extend(leaves).to_bytes()) <= 8 + 32 * 7


@given(st.binary(max_size=140))
def test_any_bytes_are_a_range_or_corrupt(data: bytes) -> None:
    try:
        read = CompactRange.from_bytes(data)
    except JournalCorrupt:
        return
    assert len(read.hashes) == read.size.bit_count()
    assert read.to_bytes() == (data or bytes(8))


def test_no_bytes_are_the_empty_range() -> None:
    assert CompactRange.from_bytes(b"") == EMPTY_RANGE
