"""A worker process of a replay: reads lots of stream names from standard input, writes what it found about each."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from trouper.audit.refold import refold
from trouper.audit.replay_report import to_plain
from trouper.core.events import REGISTRY
from trouper.runtime.histories import Histories
from trouper_journal import Journal
from trouper_journal._worker_side import begin, lots, send


def main() -> None:
    """Serve until standard input ends."""
    begin()
    trio.run(_serve, Path(sys.argv[1]))


async def _serve(path: Path) -> None:
    try:
        async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
            histories = Histories(journal)
            # Nothing else happens in this process: it may wait for its input without ado.
            for lot in lots():
                send([to_plain(await refold(journal, stream, histories)) for stream in lot])
    except Exception as error:  # noqa: BLE001 -- the edge of this process: the other one tells what went wrong
        send({"failed": f"{error}" or repr(error)})
