"""A worker process of a replay: reads lots of stream names from standard input, writes what it found about each."""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import trio

from trouper.audit.refold import refold
from trouper.audit.replay_report import to_plain
from trouper.core.events import REGISTRY
from trouper.runtime.histories import Histories
from trouper_journal import Journal

_LOTS_PER_COLLECTION: Final = 20


def main() -> None:
    """Serve until standard input ends."""
    # Ctrl-C goes to all processes of a terminal; it is for the one that the person started, which then ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trio.run(_serve, Path(sys.argv[1]))


async def _serve(path: Path) -> None:
    # Folding leaves hardly a cycle behind, and looking for them all the time would take half of the time.
    gc.freeze()
    gc.disable()
    try:
        async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
            histories = Histories(journal)
            # Nothing else happens in this process: it may wait for its input without ado.
            for number, lot in enumerate(_lots(), 1):
                found = [to_plain(await refold(journal, stream, histories)) for stream in lot]
                _answer(found)
                if number % _LOTS_PER_COLLECTION == 0:
                    gc.collect()
    except Exception as error:  # noqa: BLE001 -- the edge of this process: the other one tells what went wrong
        _answer({"failed": f"{error}" or repr(error)})


def _lots() -> Iterator[list[str]]:
    """What is asked of this process, taken in by a thread: who asks must never wait for answers to be taken."""
    asked: SimpleQueue[bytes | None] = SimpleQueue()

    def take() -> None:
        for line in sys.stdin.buffer:
            asked.put(line)
        asked.put(None)

    threading.Thread(target=take, daemon=True).start()
    while (line := asked.get()) is not None:
        yield json.loads(line)


def _answer(answer: object) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()
