"""A journal written anew, record by record, with its content sealed: read with the keys and without, it is one journal
that says all, and the same one that says only what is left after an erasure."""

from __future__ import annotations

from pathlib import Path

from trouper.core.events import REGISTRY
from trouper.testing import ManualClock
from trouper_journal import Domain, Journal, Write
from trouper_journal.sealing import FileKeyStore

_NOBODYS = ("system/driver", "system/halt", "definition/")
_EVERYTHING = Domain("run/everything", bytes(32))


async def write_sealed_twin(origin: Path, target: Path) -> Path:
    """Write the sealed twin of a journal, with its keys beside it; agents stay in plain."""
    clock = ManualClock(0)
    async with (
        Journal.open(origin, registry=REGISTRY, read_only=True) as journal,
        Journal.open(target, registry=REGISTRY, clock=clock, keys=FileKeyStore(f"{target}.keys")) as twin,
        twin.drive("copying") as fence,
    ):
        async for record in journal.read_all():
            clock.moment = record.recorded_at
            domain = None if record.stream.startswith(_NOBODYS) else _EVERYTHING
            write = Write(record.stream, [REGISTRY.decode(record)], label=record.label, domain=domain)
            await twin.commit([write], fence=fence)
    return target
