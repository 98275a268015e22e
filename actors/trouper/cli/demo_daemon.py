"""The process that the demo kills: ``python -m trouper.cli.demo_daemon JOURNAL PAUSE``.

It opens the journal, gives the demo's one request under its one command id, and waits for the answer. It tells its
parent what happens, as JSON lines on standard output. At the point named PAUSE it tells that it is there and then does
nothing more, so that the parent can kill it exactly there. It ends when its parent does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from trouper.cli.demo_world import COMMAND_ID, REQUEST, World, desk
from trouper.core.events import Principal
from trouper.runtime import Runtime, RuntimeOptions


def _say(what: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def _serve(journal: Path, pause: str) -> None:
    async def reached(place: str) -> None:
        if place == pause:
            _say({"at": place})
            await trio.sleep_forever()

    agent = desk(World.beside(journal), reached)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_with_parent, nursery.cancel_scope)
        async with Runtime.open(journal, [agent], options=RuntimeOptions(node="demo daemon")) as runtime:
            by = Principal("customer", "service", "demo")
            run = await runtime.submit("desk", REQUEST, command_id=COMMAND_ID, by=by)
            _say({"run": run.id, "repeated": run.repeated})
            result = await run.wait()
            _say({"status": result.status, "output": result.output})
        nursery.cancel_scope.cancel()


async def _end_with_parent(scope: trio.CancelScope) -> None:
    """The parent holds the other end of standard input, and never writes."""
    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stream:
        while await stream.receive_some():
            pass
    scope.cancel()


def main(arguments: Sequence[str] | None = None) -> None:
    """Be the daemon until the run has ended, the parent has, or somebody kills it."""
    journal, pause = sys.argv[1:] if arguments is None else arguments
    trio.run(_serve, Path(journal), pause)


if __name__ == "__main__":
    main()
