"""Writes the golden journals: ``python -m tests.golden.make_golden FOLDER``.

Run it with the release whose format the journals shall keep, once, and never again for the same number: what
lies in this folder was written by that release's code. Everything is fixed, so that two runs give the same records.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from pathlib import Path

import attrs
import trio
from tests.golden.events import EVENTS, REGISTRY

from trouper_journal import EMPTY_RANGE, CompactRange, Domain, Journal, Key, Record, Write, leaf_digest
from trouper_journal._store import Batch, Head

NUMBER = 1
NAME = f"journal-{NUMBER}"
TAMPERED = f"{NAME}-tampered"
TAMPERED_POSITION = 3


class CountedRandom:
    """Bytes that look random and are the same in each run."""

    def __init__(self) -> None:
        self._block = 0

    def __call__(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += hashlib.sha256(b"golden" + self._block.to_bytes(8, "big")).digest()
            self._block += 1
        return data[:size]


class SteppedClock:
    """Each look at it is a second later."""

    def __init__(self) -> None:
        self._now = 1_700_000_000_000_000_000

    def now(self) -> int:
        self._now += 1_000_000_000
        return self._now

    async def sleep_until(self, moment: int) -> None:
        await trio.sleep_forever()


async def write_golden(path: Path) -> None:
    """Write the journal: labels, alarms, keys, meta, a domain, large values, and a sealed record."""
    async with Journal.open(path, registry=REGISTRY, clock=SteppedClock(), random=CountedRandom()) as journal:
        async with journal.drive("golden") as fence:
            first, second, third = EVENTS.values()
            await journal.append("ticket/1", first[:2], expected=0, label="open", key=Key("submit:1", b"d" * 32))
            await journal.commit(
                [
                    Write("ticket/1", first[2:5], expected=2, wake_at=1_800_000_000_000_000_000),
                    Write("ticket/2", second[:1], expected=0, label="waiting"),
                ],
                fence=fence,
                key=Key("decide:1", b"\x00"),
                meta={"cause": 2, "principal": {"id": "maria", "kind": "person"}, "unknown key": [None]},
            )
            await journal.commit(
                [
                    Write("ticket/1", first[5:], label="closed"),
                    Write("ticket/2", second[1:3], wake_at=0),
                    Write(
                        "заявка/3",
                        third,
                        domain=Domain("golden domain", b"salt" * 8),
                        wake_at=1_900_000_000_000_000_000,
                    ),
                ],
                fence=fence,
                require={"ticket/2": 1},
            )
        await seal_one(journal, second[3])


async def seal_one(journal: Journal, event: object) -> None:
    """Append a sealed record, which this release reads and does not write."""
    store = journal.store
    known = await store.load(["ticket/2"], [])
    stream = known.streams["ticket/2"]
    encoded = REGISTRY.encode(event, stream=stream.stream, domain=None, salt16=bytes(16))
    record = Record(
        position=known.head.position + 1,
        stream=stream.stream,
        version=stream.version + 1,
        type=encoded.type,
        schema=encoded.schema,
        recorded_at=1_700_000_100_000_000_000,
        key=None,
        label=None,
        wake_at=None,
        key_id="key-1",
        meta=b"",
        facts=encoded.facts,
        content=bytes(byte ^ 0x5A for byte in encoded.content),
        leaf=b"",
    )
    record = attrs.evolve(record, leaf=leaf_digest(journal.id, record))
    grown = CompactRange.from_bytes(known.head.range).extend([record.leaf])
    head = Head(record.position, known.head.epoch, grown.to_bytes())
    assert await store.write(Batch(known.head, head, [record], [], []))


async def describe(path: Path) -> dict[str, object]:
    """What the journal holds, for the file beside it."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        records = [record async for record in journal.read_all()]
        found = await journal.verify()
        assert found.ok, found.problems
        assert EMPTY_RANGE.extend([record.leaf for record in records]).root().hex() == found.root
        return {
            "journal_id": found.journal_id,
            "records": found.records,
            "root": found.root,
            "leaves": [record.leaf.hex() for record in records],
            "streams": {
                head.stream: [head.version, head.position, head.label, head.wake_at] async for head in journal.streams()
            },
        }


def tamper(path: Path) -> None:
    """Change one fact of one record, as somebody with write access to the file can: around the triggers."""
    with sqlite3.connect(path) as database:
        [(guard,)] = database.execute("SELECT sql FROM sqlite_master WHERE name = 'events_update'").fetchall()
        database.execute("DROP TRIGGER events_update")
        [(facts,)] = database.execute("SELECT facts FROM events WHERE position = ?", (TAMPERED_POSITION,)).fetchall()
        forged = facts.replace(b"integers", b"INTEGERS")
        assert forged != facts
        database.execute("UPDATE events SET facts = ? WHERE position = ?", (forged, TAMPERED_POSITION))
        database.execute(guard)
    database.close()


def main(folder: Path) -> None:
    """Write the journals and the description beside them."""
    golden, tampered = folder / f"{NAME}.db", folder / f"{TAMPERED}.db"
    assert not golden.exists(), "a golden journal is written once"
    trio.run(write_golden, golden)
    description = trio.run(describe, golden)
    (folder / f"{NAME}.json").write_text(json.dumps(description, indent=1, ensure_ascii=False) + "\n", "utf-8")
    (folder / f"{NAME}.db.lock").unlink()
    tampered.write_bytes(golden.read_bytes())
    tamper(tampered)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
