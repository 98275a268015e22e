"""The page on sealed content is true: its vectors are recomputed, by the library and by a second implementation."""

from __future__ import annotations

import hashlib
import hmac
import sqlite3
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journal_format import reference
from tests.journal_format.test_format_page import PAGE, blocks, literal, table

from trouper_journal import Content, Domain, EventRegistry, Journal, JournalCorrupt, Opened, Plain, Value, Write, event
from trouper_journal._aead import Cipher, SealBroken
from trouper_journal._keyfile_layout import APPLICATION_ID, LAYOUT
from trouper_journal._masterkey import master_id
from trouper_journal._sealed import (
    content_context,
    header_of,
    key_context,
    referring_to,
    sealed_references,
    split_sealed,
    value_context,
    value_digest,
    value_nonce,
)
from trouper_journal._values import Reference, pack_plain
from trouper_journal.sealing import FileKeyStore, MemoryKeyStore, references_of


def cells_of(lines: list[str]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Cells with bytes, and cells with texts."""
    cells = table(lines)
    texts = {name: str(literal(cell)) for name, cell in cells.items() if cell.startswith("'")}
    rest = {name: bytes.fromhex(cell) for name, cell in cells.items() if name not in (*texts, "schema")}
    return rest, texts


@pytest.mark.parametrize("lines", blocks("vectors sealed"))
def test_sealed_content(lines: list[str]) -> None:
    data, names = cells_of(lines)
    schema = int(table(lines)["schema"])
    head = b"\x01" + (len(data["references"]) // 40).to_bytes(2, "big") + data["references"]
    place = (data["journal_id"], names["key_id"], names["stream"], names["type"], schema, head)
    assert reference.bound_content(*place) == content_context(*place) == data["bound"]
    sealed = head + reference.gcm(data["key"], data["nonce"], data["plain"], data["bound"])
    assert sealed == data["sealed"]
    header, nonce, rest = split_sealed(sealed)
    assert header == head == header_of(sealed_references(sealed))
    assert Cipher(data["key"]).open(nonce, rest, data["bound"]) == data["plain"]


@pytest.mark.parametrize("lines", blocks("vectors sealed large"))
def test_sealed_large_values(lines: list[str]) -> None:
    data, names = cells_of(lines)
    place = (data["journal_id"], names["key_id"], names["domain"])
    assert reference.bound_value(*place) == value_context(*place) == data["bound"]
    inner = hmac.digest(data["key"], b"trouper large value nonce", "sha256")
    assert hmac.digest(inner, data["plain"], "sha256")[:12] == value_nonce(data["key"], data["plain"]) == data["nonce"]
    sealed = reference.gcm(data["key"], data["nonce"], data["plain"], data["bound"])
    assert sealed == data["sealed"]
    assert hashlib.sha256(sealed).digest() == value_digest(sealed).digest == data["digest"]
    assert pack_plain(value_digest(sealed)) == data["reference"]


@pytest.mark.parametrize("lines", blocks("vectors wrapped"))
def test_wrapped_keys(lines: list[str]) -> None:
    data, names = cells_of(lines)
    master = data["master"]
    assert hmac.digest(master, b"trouper master key id", "sha256")[:8] == data["master_id"]
    assert bytes.fromhex(master_id(master)) == data["master_id"]
    order = (names["key_id"], data["journal_id"], names["domain"])
    assert reference.bound_key(order[1], order[0], order[2]) == key_context(*order) == data["bound"]
    assert reference.gcm(master, data["nonce"], data["key"], data["bound"]) == data["wrapped"]
    assert Cipher(master).open(data["nonce"], data["wrapped"][12:], data["bound"]) == data["key"]


async def test_a_new_file_of_keys_has_the_tables_of_the_page(tmp_path: Path) -> None:
    await FileKeyStore(tmp_path / "a.keys").obtain(bytes(16), "room")
    database = sqlite3.connect(tmp_path / "a.keys")
    statements = {
        " ".join(sql.split()) for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    }
    database.close()
    [lines] = blocks("sql keys")
    assert statements == {" ".join(part.split()) for part in "\n".join(lines).split(";") if part.strip()}
    assert (
        f"0x{APPLICATION_ID:08X} (`{APPLICATION_ID.to_bytes(4, 'big').decode()}`) and `user_version` {LAYOUT}" in PAGE
    )


@event("page.noted")
@attrs.frozen(slots=False, repr=False, eq=False)
class Noted(Plain):
    text: Content[Value] = None


@pytest.mark.parametrize("value", ["hello", "x" * 40_000])
async def test_a_journal_seals_as_the_page_says(value: str) -> None:
    keys = MemoryKeyStore()
    async with Journal.open(registry=EventRegistry([Noted]), keys=keys) as journal:
        await journal.commit([Write("run/1", [Noted(value)], domain=Domain("run/0", b"s"))])
        (record,) = await journal.read_page("run/1")
        key = await keys.obtain(journal.id, "run/0")
        assert isinstance(record.opened, Opened)
        head, nonce, _ = split_sealed(record.content)
        bound = reference.bound_content(journal.id, key.id, "run/1", "page.noted", 1, head)
        assert record.content == head + reference.gcm(key.secret, nonce, record.opened.content, bound)
        bound = reference.bound_value(journal.id, key.id, "run/0")
        for found in references_of(record):
            plain = record.opened.values[found.digest]
            data = reference.gcm(key.secret, value_nonce(key.secret, plain), plain, bound)
            assert (found.digest, found.size) == (hashlib.sha256(data).digest(), len(data))
            assert record.values[found.digest] == data
        assert len(references_of(record)) == (len(value) > 1000)


references = st.lists(st.builds(Reference, st.binary(min_size=32, max_size=32), st.integers(0, 2**64 - 1)), max_size=4)


@given(references, st.binary(min_size=28, max_size=60))
def test_references_stand_in_clear(found: list[Reference], rest: bytes) -> None:
    assert list(sealed_references(header_of(found) + rest)) == found


@given(st.binary(max_size=200))
def test_any_bytes_are_sealed_content_or_refused(data: bytes) -> None:
    try:
        header, nonce, sealed = split_sealed(data)
    except JournalCorrupt:
        return
    assert header + nonce + sealed == data


@given(st.binary(min_size=16, max_size=40), st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_is_found(plain: bytes, place: int, bit: int) -> None:
    cipher, head = Cipher(b"k" * 32), header_of(())
    bound = content_context(bytes(16), "k", "a", "b.c", 1, head)
    sealed = bytearray(bytes(12) + cipher.seal(bytes(12), plain, bound))
    sealed[place % len(sealed)] ^= 1 << bit
    with pytest.raises(SealBroken):
        cipher.open(bytes(sealed[:12]), bytes(sealed[12:]), bound)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_references_are_exchanged_and_the_rest_stays(order: list[int]) -> None:
    plain = [Reference(bytes([number]) * 32, number) for number in range(4)]
    sealed = {each.digest: Reference(each.digest[::-1], each.size + 28) for each in plain}
    rest: dict[str, object] = {"a": 1.5, "b": "\ud800", "c": 2**70, "d": [None, {"x": b"y"}]}
    fields = {**rest, **{f"r{at}": plain[number] for at, number in enumerate(order)}}
    content, found = referring_to(bytes(16) + pack_plain(fields), sealed)
    wanted = {**rest, **{f"r{at}": sealed[plain[number].digest] for at, number in enumerate(order)}}
    assert content == bytes(16) + pack_plain(wanted)
    assert list(found) == [sealed[plain[number].digest] for number in order]
