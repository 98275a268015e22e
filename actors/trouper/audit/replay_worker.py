"""A worker process of a replay: reads lots of stream names from standard input, writes what it found about each."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import trio

from trouper.audit.refold import open_beside, refold
from trouper.audit.replay_report import to_plain
from trouper.runtime.histories import Histories
from trouper_journal._worker_side import begin, lots, send


def main() -> None:
    """Serve until standard input ends."""
    begin()
    trio.run(_serve, sys.argv[1], sys.argv[2:])


async def _serve(path: str, archives: Sequence[str]) -> None:
    try:
        async with open_beside(path, archives) as journal:
            histories = Histories(journal)
            # Nothing else happens in this process: it may wait for its input without ado.
            for lot in lots():
                send([to_plain(await refold(journal, stream, histories)) for stream in lot])
    except Exception as error:  # noqa: BLE001 -- the edge of this process: the other one tells what went wrong
        send({"failed": f"{error}" or repr(error)})
