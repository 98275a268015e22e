"""Writes the golden run journals: ``python -m tests.golden.make_golden_runs FOLDER``.

Run it with the release whose events and rules the journals shall keep, once, and never again for the same number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import trio
from tests.golden.desk import Desk
from tests.golden.make_golden import CountedRandom

from trouper import REGISTRY, Limits, Run, RunError, Runtime, RuntimeOptions
from trouper.core.events import ActionReturnedLate
from trouper.core.replay import check
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.runtime.commands import PendingApproval
from trouper.testing import ManualClock
from trouper_journal import Journal

NUMBER = 1
NAME = f"runs-{NUMBER}"


class CountedEntropy:
    """Ids and salts that are the same in each run."""

    def __init__(self) -> None:
        self._random = CountedRandom()

    def token(self, size: int) -> bytes:
        return self._random(size)

    def fraction(self) -> float:
        return 0.5


class Writer:
    """Plays all kinds of runs."""

    def __init__(self, runtime: Runtime, desk: Desk, clock: ManualClock) -> None:
        self.runtime = runtime
        self.desk = desk
        self.clock = clock

    async def begin(self, name: str, limits: Limits | None = None) -> Run:
        self.clock.advance(60)
        return await self.runtime.submit("desk", name, command_id=name, limits=limits, by="maria")

    async def until(self, run: Run, label: str) -> None:
        async with self.runtime.journal.news() as news:
            while True:
                told = status(state := await run.state())
                if told.label == label and (state.ended or told.wake_at != 0):
                    return
                await news.wait()

    async def asked(self, run: Run) -> Sequence[PendingApproval]:
        await self.until(run, "awaiting_approval")
        return [each for each in await self.runtime.approvals() if each.run == run.id]

    async def ended(self, run: Run) -> None:
        try:
            await run.wait()
        except RunError:
            return

    async def write(self) -> None:
        for name in ("answer", "think", "bad calls", "cut off"):
            await self.ended(await self.begin(name))
        await self.people()
        await self.doubts()
        await self.limits()
        await self.time()

    async def people(self) -> None:
        run = await self.begin("approve")
        a, b = await self.asked(run)
        await self.runtime.approve(a.action, by="maria", reason="fine")
        await self.runtime.deny(b.action, by="peter", reason="keep b")
        await self.ended(run)
        run = await self.begin("edit")
        (asked,) = await self.asked(run)
        await self.runtime.approve(asked.action, by="maria", arguments={"disk": "z"})
        await self.ended(run)
        run = await self.begin("expire")
        await self.asked(run)
        self.clock.advance(3600)
        await self.ended(run)
        for name in ("drift", "changed"):
            await self.asked(await self.begin(name))
        run = await self.begin("half done")
        _, b = await self.asked(run)
        await self.runtime.approve(b.action, by="maria")
        await self.until(run, "awaiting_approval")

    async def doubts(self) -> None:
        run = await self.begin("doubt")
        await self.until(run, "in_doubt")
        await self.runtime.resolve(f"{run.id}/0.0", "applied", by="maria", evidence="seen in the log")
        await self.ended(run)
        await self.until(await self.begin("doubt left"), "in_doubt")
        run = await self.begin("cancel")
        await self.until(run, "in_doubt")
        await run.cancel(by="maria", reason="enough")
        await self.ended(run)

        await self.ended(await self.begin("query"))
        run = await self.begin("late")
        for seconds in (5, 1):
            await self.clock.wait_waiting(seconds)
            self.clock.advance(seconds)
        await self.until(run, "in_doubt")
        await self.runtime.resolve(f"{run.id}/0.0", "applied", by="maria")
        await self.ended(run)
        async with self.runtime.journal.news() as news:
            self.desk.release.set()
            while ActionReturnedLate not in [type(event) for _, event in await run.events()]:
                await news.wait()

    async def limits(self) -> None:
        run = await self.begin("limit", Limits(max_steps=3))
        await self.ended(run)
        await run.raise_limit(3, by="maria", reason="worth it")
        await self.ended(run)
        await self.ended(await self.begin("finish", Limits(max_steps=3, on_limit="finish")))

    async def time(self) -> None:
        for name in ("retry", "transient"):
            run = await self.begin(name)
            await self.until(run, "retrying")
            self.clock.advance(60)
            await self.ended(run)
        run = await self.begin("give up")
        await self.ended(run)
        await self.runtime.resume(run.id, by="maria", reason="the model is back")
        await self.ended(run)


async def cut_short(clock: ManualClock) -> None:
    """Let the stopping runtime's patience end."""
    await clock.wait_waiting(5)
    clock.advance(5)


async def write_golden_runs(path: Path) -> None:
    """Write the journal, over two lives of a runtime."""
    desk, clock, entropy, random = Desk(), ManualClock(), CountedEntropy(), CountedRandom()
    async with Journal.open(path, registry=REGISTRY, clock=clock, random=random) as journal:
        async with trio.open_nursery() as nursery:
            options = RuntimeOptions(drain=5, grace=1)
            async with Runtime.over(journal, [desk.agent()], clock=clock, entropy=entropy, options=options) as runtime:
                writer = Writer(runtime, desk, clock)
                await writer.write()
                await writer.begin("stop")
                await desk.began.wait()
                await writer.begin("ask")
                await desk.model.asked.wait()
                nursery.start_soon(cut_short, clock)
        desk.stopped, desk.model.hangs = True, False
        # In the second life the prose is another one, in the third the contract.
        agent = desk.agent(instructions="Do it well.")
        async with Runtime.over(journal, [agent], clock=clock, entropy=entropy) as runtime:
            writer = Writer(runtime, desk, clock)
            for name in ("stop", "ask"):
                await writer.ended(await writer.begin(name))
            await approved(writer, await writer.begin("drift"))
        agent = desk.agent(instructions="Do it well.", tools=desk.tools(version="2"))
        async with Runtime.over(journal, [agent], clock=clock, entropy=entropy) as runtime:
            writer = Writer(runtime, desk, clock)
            run = await writer.begin("changed")
            (asked,) = await writer.asked(run)
            await runtime.approve(asked.action, by="maria")
            await writer.until(run, "drifted")
            await runtime.adopt(run.id, by="peter")
            await approved(writer, run)


async def approved(writer: Writer, run: Run) -> None:
    """Approve what the run asks for, and see it to its end."""
    (asked,) = await writer.asked(run)
    await writer.runtime.approve(asked.action, by="maria")
    await writer.ended(run)


async def describe_runs(path: Path) -> dict[str, object]:
    """What the journal holds, for the file beside it: facts that any later release must find again."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        found = await journal.verify()
        assert found.ok, found.problems
        runs: dict[str, object] = {}
        async for head in journal.streams(prefix="run/"):
            events = [journal.registry.decode(record) async for record in journal.read(head.stream)]
            types = [record.type async for record in journal.read(head.stream)]
            state, difference = check(head.stream.removeprefix("run/"), events)
            assert difference is None, difference
            runs[state.run] = {"events": types, **facts(state)}
        return {"records": found.records, "root": found.root, "runs": runs}


def facts(state: RunState) -> dict[str, object]:
    """What a run came to."""
    told = status(state)
    return {
        "asked": str(state.messages[0].content),
        "label": told.label,
        "wake_at": told.wake_at,
        "steps": state.steps,
        "output": state.output,
        "definition": state.definition,
        "tokens": [state.usage.input_tokens, state.usage.output_tokens, state.usage.unknown],
        "in_doubt": [action.action for action in state.in_doubt],
        "awaiting": [[action.action, action.digest.hex()] for action in state.awaiting],
        "messages": [[message.role, message.id, str(message.content)] for message in state.messages],
        "chain": state.chain.hex(),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    path = folder / f"{NAME}.db"
    if path.exists():
        sys.exit(f"{path} exists: a golden journal is written once")
    trio.run(write_golden_runs, path)
    described = trio.run(describe_runs, path)
    (folder / f"{NAME}.json").write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
