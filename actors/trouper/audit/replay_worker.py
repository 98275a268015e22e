"""A worker process of a replay: reads lots of stream names from standard input, writes what it found about each."""

from __future__ import annotations

import json
import sys

import cattrs
import trio

from trouper.audit.elsewhere import Elsewhere
from trouper.audit.refold import Files, open_beside, refold
from trouper.audit.replay_report import to_plain
from trouper_journal._worker_side import begin, lots, send


def main() -> None:
    """Serve until standard input ends."""
    begin()
    trio.run(_serve, cattrs.structure(json.loads(sys.argv[1]), Files))


async def _serve(files: Files) -> None:
    try:
        async with open_beside(files) as journal:
            elsewhere = Elsewhere(journal)
            # Nothing else happens in this process: it may wait for its input without ado.
            for lot in lots():
                send([to_plain(await refold(journal, stream, elsewhere)) for stream in lot])
    except Exception as error:  # noqa: BLE001 -- the edge of this process: the other one tells what went wrong
        send({"failed": f"{error}" or repr(error)})
