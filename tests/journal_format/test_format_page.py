"""docs/format.md is true: its vectors are recomputed, by the library and by a second implementation."""

from __future__ import annotations

import ast
import hashlib
import hmac
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journal_format import reference

from trouper_journal import (
    EMPTY_RANGE,
    CompactRange,
    Domain,
    Journal,
    Record,
    Value,
    canonical,
    content_digest,
    leaf_digest,
    pack,
    plain_digest,
    unpack,
)
from trouper_journal import _archive_file as archive_file
from trouper_journal import _archive_rows as archive_rows
from trouper_journal._codec import LARGE, large_value
from trouper_journal._sqlite_schema import APPLICATION_ID, LAYOUT
from trouper_journal._values import MAX_DEPTH, MAX_INT_BYTES, MAX_SIZE, Reference, pack_plain
from trouper_journal.proofs import consistency_proof, inclusion_proof

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text("utf-8")


def blocks(kind: str) -> list[list[str]]:
    """The lines of each block of vectors of this kind."""
    found = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, kind
    return [block.splitlines() for block in found]


def rows(kind: str, cells: int) -> list[list[str]]:
    """The lines of the one block of this kind, cut at the last blanks."""
    [lines] = blocks(f"vectors {kind}")
    return [line.rsplit(None, cells - 1) for line in lines]


def literal(text: str) -> Value:
    """A Python literal with the arithmetic that the page uses."""
    value: Value = eval(compile(ast.parse(text.strip(), mode="eval"), "format.md", "eval"), {"__builtins__": {}})
    return value


def table(lines: list[str]) -> dict[str, str]:
    return {line.split(None, 1)[0]: line[12:].strip() for line in lines}


@pytest.mark.parametrize(("value", "packed"), rows("values", 2))
def test_values(value: str, packed: str) -> None:
    assert pack(literal(value)).hex() == packed
    assert reference.pack(literal(value)).hex() == packed
    assert pack(unpack(bytes.fromhex(packed))).hex() == packed


@pytest.mark.parametrize(("value", "form"), rows("canonical", 2))
def test_canonical_forms(value: str, form: str) -> None:
    assert canonical(literal(value)).hex() == form
    assert reference.pack(literal(value), ordered=True).hex() == form


@pytest.mark.parametrize(("value", "plain", "keyed"), rows("digests", 3))
def test_digests_of_values(value: str, plain: str, keyed: str) -> None:
    form = reference.pack(literal(value), ordered=True)
    salt = bytes(range(32))
    assert plain_digest(literal(value)).hex() == hashlib.sha256(form).hexdigest() == plain
    assert content_digest(salt, literal(value)).hex() == hmac.new(salt, form, "sha256").hexdigest() == keyed


texts = st.text(st.characters(codec=None, exclude_categories=()))
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = leaves | texts | st.binary() | st.integers(-(2**70), 2**70) | st.text(min_size=31, max_size=33)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


@given(values)
def test_both_implementations_agree_on_values(value: Value) -> None:
    assert pack(value) == reference.pack(value)
    assert canonical(value) == reference.pack(value, ordered=True)


@pytest.mark.parametrize("size", [15, 16, 255, 256, 65_535, 65_536])
def test_both_implementations_agree_on_lengths(size: int) -> None:
    for value in ("x" * size, b"x" * size, [None] * size, {str(key): None for key in range(size)}):
        assert pack(value) == reference.pack(value)
    assert pack(2 ** (8 * min(size, 1780))) == reference.pack(2 ** (8 * min(size, 1780)))


@pytest.mark.parametrize("lines", blocks("vectors leaf"))
def test_leaves(lines: list[str]) -> None:
    cells = table(lines)
    journal_id, meta, facts, content = (
        bytes.fromhex(cells.pop(name)) for name in ("journal_id", "meta", "facts", "content")
    )
    header, leaf = cells.pop("header"), cells.pop("leaf")
    fields: dict[str, object] = {name: literal(cell) for name, cell in cells.items()}
    assert reference.header(journal_id, fields).hex() == header
    assert reference.leaf(bytes.fromhex(header), meta, facts, content).hex() == leaf
    record = Record(**fields, meta=meta, facts=facts, content=content, leaf=b"")  # type: ignore[arg-type]
    assert leaf_digest(journal_id, record).hex() == leaf


names = st.text(st.characters(codec=None, exclude_categories=()), max_size=5)
records = st.builds(
    Record,
    position=st.integers(0, 2**64 - 1),
    stream=names,
    version=st.integers(0, 2**64 - 1),
    type=names,
    schema=st.integers(0, 2**32 - 1),
    recorded_at=st.integers(-(2**63), 2**63 - 1),
    key=st.none() | names,
    label=st.none() | names,
    wake_at=st.none() | st.integers(-(2**63), 2**63 - 1),
    key_id=st.none() | names,
    meta=st.binary(max_size=3),
    facts=st.binary(max_size=3),
    content=st.binary(max_size=3),
    leaf=st.just(b""),
)


@given(st.binary(min_size=16, max_size=16), records)
def test_both_implementations_agree_on_leaves(journal_id: bytes, record: Record) -> None:
    fields = {name: getattr(record, name) for name in Record.__slots__ if name != "__weakref__"}
    head = reference.header(journal_id, fields)
    assert leaf_digest(journal_id, record) == reference.leaf(head, record.meta, record.facts, record.content)


@given(records, records)
def test_different_records_have_different_leaves(left: Record, right: Record) -> None:
    assert (leaf_digest(bytes(16), left) == leaf_digest(bytes(16), right)) == (left == right)


def test_the_tree() -> None:
    [lines] = blocks("vectors leaves")
    hashes = [bytes.fromhex(line.split()[1]) for line in lines]
    assert [table(leaf)["leaf"] for leaf in blocks("vectors leaf")] == [digest.hex() for digest in hashes[:2]]
    for size, root in rows("roots", 2):
        first = hashes[: int(size)]
        assert EMPTY_RANGE.extend(first).root().hex() == reference.root(first).hex() == root
    [[compact]] = blocks("vectors range")
    assert EMPTY_RANGE.extend(hashes).to_bytes().hex() == compact
    assert CompactRange.from_bytes(bytes.fromhex(compact)).root() == reference.root(hashes)


Proving = Callable[[int, list[bytes]], list[bytes]]


def test_the_proofs() -> None:
    [lines] = blocks("vectors leaves")
    hashes = [bytes.fromhex(line.split()[1]) for line in lines]
    proofs: list[tuple[str, Proving, Proving]] = [
        ("inclusion", lambda at, first: list(inclusion_proof(first, at)), reference.path),
        ("consistency", lambda at, first: list(consistency_proof(first, at)), reference.proof),
    ]
    for kind, ours, theirs in proofs:
        [lines] = blocks(f"vectors {kind}")
        for line in lines:
            at, size, *proof = line.split()
            first = hashes[: int(size)]
            for make in (ours, theirs):
                assert [each.hex() for each in make(int(at), first)] == proof


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=40), st.data())
def test_both_implementations_agree_on_proofs(hashes: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(hashes) - 1))
    assert list(inclusion_proof(hashes, index)) == reference.path(index, hashes)
    assert list(consistency_proof(hashes, index + 1)) == reference.proof(index + 1, hashes)


@pytest.mark.parametrize("lines", blocks("vectors large"))
def test_large_values(lines: list[str]) -> None:
    cells = table(lines)
    stream, name = literal(cells["stream"]), literal(cells["domain"])
    packed, salt = bytes.fromhex(cells["packed"]), bytes.fromhex(cells["salt"])
    assert isinstance(stream, str)
    domain = Domain(name, salt) if isinstance(name, str) else None
    value = large_value(packed, stream, domain)
    assert value.domain == (name or stream)
    assert value.data.hex() == cells["data"]
    assert value.digest.hex() == cells["digest"]
    assert pack_plain(Reference(value.digest, len(value.data))).hex() == cells["reference"]

    scope = value.domain.encode()
    keyed = hmac.new(salt or b"trouper large value", len(scope).to_bytes(4, "big") + scope + packed, "sha256")
    data = keyed.digest()[:16] + packed
    assert data.hex() == cells["data"]
    assert hashlib.sha256(data).hexdigest() == cells["digest"]
    mark = reference.extension(2, hashlib.sha256(data).digest() + len(data).to_bytes(8, "big"))
    assert mark.hex() == cells["reference"]


def test_the_limits_are_those_of_the_page() -> None:
    for words in (
        f"nested at most {MAX_DEPTH} deep",
        f"a packed value has at most {MAX_SIZE // 2**20} MiB",
        f"at most {MAX_INT_BYTES:,} bytes",
        f"more than {LARGE // 1024} KiB ({LARGE:,} bytes)",
        f"`application_id` 0x{APPLICATION_ID:08X} (`{APPLICATION_ID.to_bytes(4, 'big').decode()}`)",
        f"`user_version` {LAYOUT}, the layout number",
    ):
        assert words in PAGE


async def test_a_new_file_has_the_tables_of_the_page(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "journal.db"):
        pass
    database = sqlite3.connect(tmp_path / "journal.db")
    made = database.execute("SELECT sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL")
    statements = {" ".join(sql.split()) for (sql,) in made.fetchall()}
    database.close()
    [lines] = blocks("sql tables")
    assert statements == {" ".join(part.split()) for part in "\n".join(lines).split(";") if part.strip()}


@pytest.mark.parametrize(
    ("kind", "tables"), [("archive tables", archive_rows.TABLES), ("archive file", archive_file.TABLES)]
)
def test_archives_have_the_tables_of_the_page(kind: str, tables: str) -> None:
    [lines] = blocks(f"sql {kind}")
    assert "\n".join(lines).strip() == tables.strip()
    number = archive_file.APPLICATION_ID
    assert f"`application_id` 0x{number:08X} (`{number.to_bytes(4, 'big').decode()}`)" in PAGE
