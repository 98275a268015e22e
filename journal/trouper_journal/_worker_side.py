"""The worker's side of `trouper_journal._workers`: lots come by standard input, answers go to standard output."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Final

_LOTS_PER_COLLECTION: Final = 20


def begin() -> None:
    """Make this process a worker."""
    # Ctrl-C goes to all processes of a terminal; it is for the one that the person started, which then ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Such work leaves hardly a cycle behind, and looking for them all the time would take half of the time.
    gc.freeze()
    gc.disable()


def serve(answer: Callable[[list[str]], object]) -> None:
    """Answer lots until standard input ends."""
    for lot in lots():
        send(answer(lot))


def lots() -> Iterator[list[str]]:
    """What is asked of this process, taken in by a thread: who asks must never wait for answers to be taken."""
    asked: SimpleQueue[bytes | None] = SimpleQueue()

    def take() -> None:
        for line in sys.stdin.buffer:
            asked.put(line)
        asked.put(None)

    threading.Thread(target=take, daemon=True).start()
    number = 0
    while (line := asked.get()) is not None:
        yield json.loads(line)
        number += 1
        if number % _LOTS_PER_COLLECTION == 0:
            gc.collect()


def send(answer: object) -> None:
    """Give an answer; an object with ``failed`` says why there will be no more.

    Where whoever asked is gone, this process ends without a word.
    """
    try:
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Not by an exception: Python would flush the stream once more, and complain.
        os._exit(1)
