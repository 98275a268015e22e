"""A daemon for tests: ``python -m tests.cli.daemon JOURNAL AGENT...``.

It asks each agent once, and drives until all have ended; with no agent named, until somebody ends it. It tells as
JSON lines which runs it began, whenever one waits for a person, and how each ended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial

import trio
from tests.cli.agents import ALL

from trouper import Principal, Run, RunError, Runtime
from trouper.core.status import status


def _say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def _tell_of_waiting(runtime: Runtime, run: Run) -> None:
    last = ""
    async with runtime.journal.news() as news:
        while True:
            label = status(await run.state()).label
            if label != last and label in {"awaiting_approval", "in_doubt"}:
                _say(run=run.id, label=label)
            last = label
            await news.wait()


async def _see_through(runtime: Runtime, agent: str) -> None:
    run = await runtime.submit(agent, f"Please, {agent}", command_id=f"ask-{agent}", by=Principal("tester", "service"))
    _say(run=run.id, agent=agent)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_tell_of_waiting, runtime, run)
        try:
            await run.wait()
        except RunError as error:
            _say(run=run.id, error=str(error))
        nursery.cancel_scope.cancel()
    _say(ended=run.id, label=status(await run.state()).label)


async def main(journal: str, agents: Sequence[str]) -> None:
    async with Runtime.open(journal, ALL, secrets={"crm/token": "s3cret"}) as runtime, trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(partial(_see_through, runtime, agent))
        if not agents:
            await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2:])
