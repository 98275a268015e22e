"""The side file that says how a journal was left: what was changed in it is damage, never an accusation."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from trouper_journal import EMPTY_RANGE
from trouper_journal.rollback import KnownHead, decode_head, encode_head

LEAVES = st.lists(st.binary(min_size=32, max_size=32), max_size=20)
IDS = st.binary(min_size=16, max_size=16)


@given(IDS, LEAVES)
def test_what_is_written_is_read(journal_id: bytes, leaves: list[bytes]) -> None:
    head = KnownHead(journal_id, EMPTY_RANGE.extend(leaves))
    read = decode_head(encode_head(head))
    assert read is not None
    assert (read.journal_id, read.size, read.root) == (journal_id, len(leaves), head.root)


@given(IDS, LEAVES, st.data())
def test_a_changed_byte_is_damage_or_another_journal_or_nothing(
    journal_id: bytes, leaves: list[bytes], data: st.DataObject
) -> None:
    head = KnownHead(journal_id, EMPTY_RANGE.extend(leaves))
    written = bytearray(encode_head(head))
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= data.draw(st.integers(1, 255))
    read = decode_head(bytes(written))
    assert read is None or read.journal_id != journal_id or (read.size, read.root) == (head.size, head.root)


@given(st.binary(max_size=200))
def test_any_bytes_are_damage(data: bytes) -> None:
    assert decode_head(data) is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_json_is_damage(told: object) -> None:
    assert decode_head(json.dumps(told).encode()) is None
    keys = ("format", "journal", "size", "root", "tree")
    assert decode_head(json.dumps(dict.fromkeys(keys, told)).encode()) is None
