"""Journals that say something else than what happened, and agree with themselves in every digest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trouper import REGISTRY
from trouper_journal import Journal, Write

Change = Callable[[str, object], object | None]
"""What stands in place of an event, by stream; None for nothing."""


async def rewritten(source: Path, target: Path, change: Change) -> Path:
    """Write a journal's events anew, each as a change has it, as whoever has a driver's code can."""
    async with (
        Journal.open(source, registry=REGISTRY, read_only=True) as original,
        Journal.open(target, registry=REGISTRY) as forged,
        forged.drive("forger") as fence,
    ):
        writes: dict[str, Write] = {}
        async for record in original.read_all():
            event = change(record.stream, REGISTRY.decode(record))
            if record.stream in writes:
                # A commit writes a stream once.
                await forged.commit([*writes.values()], fence=fence)
                writes.clear()
            if event is not None:
                writes[record.stream] = Write(record.stream, [event], label=record.label)
        await forged.commit([*writes.values()], fence=fence)
    return target
