"""Writes the golden run journals: ``python -m tests.golden.make_golden_runs FOLDER``.

Run it with the release whose events and rules the journals shall keep, once, and never again for the same number.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import attrs
import trio
from attrs import define
from tests.golden.company import Company
from tests.golden.desk import Desk
from tests.golden.make_golden import CountedRandom
from tests.golden.player import Player
from tests.golden.scenes import Leftovers, Scenes

from trouper import REGISTRY, Commands, Human, Limits, Price, Run, Runtime, RuntimeOptions, SystemClock, SystemEntropy
from trouper.core.conversation import text
from trouper.core.events import ActionReturnedLate
from trouper.core.replay import check
from trouper.core.rule_events import APPROVALS
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.runtime.sessions import read
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


@define(eq=False)
class Writer(Player):
    """Plays all that a desk's runs can come to."""

    desk: Desk

    async def begin(self, name: str, limits: Limits | None = None) -> Run:
        return await self.submit("desk", name, limits)

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
    """Write the journal: the company's life, three of the desk, and a last one of the company's."""
    clock, entropy, random = ManualClock(), CountedEntropy(), CountedRandom()
    async with Journal.open(path, registry=REGISTRY, clock=clock, random=random) as journal:
        await company_life(journal, clock, entropy, Scenes)
        await desk_lives(journal, clock, entropy)
        await company_life(journal, clock, entropy, Leftovers)


async def company_life(journal: Journal, clock: ManualClock, entropy: CountedEntropy, scenes: type[Scenes]) -> None:
    """A life of a runtime with the company's agents."""
    company = Company()
    options = RuntimeOptions(prices={"golden-dear": Price("golden 2026-01-01", 1_000, 5_000)})
    async with Runtime.over(journal, company.agents(), clock=clock, entropy=entropy, options=options) as runtime:
        await scenes(runtime, clock, company).play()


async def desk_lives(journal: Journal, clock: ManualClock, entropy: CountedEntropy) -> None:
    """Three lives of a runtime with the desk."""
    desk = Desk()
    async with trio.open_nursery() as nursery:
        options = RuntimeOptions(drain=5, grace=1)
        async with Runtime.over(journal, [desk.agent()], clock=clock, entropy=entropy, options=options) as runtime:
            writer = Writer(runtime, clock, desk)
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
        writer = Writer(runtime, clock, desk)
        for name in ("stop", "ask"):
            await writer.ended(await writer.begin(name))
        await approved(writer, await writer.begin("drift"))
    agent = desk.agent(instructions="Do it well.", tools=desk.tools(version="2"))
    async with Runtime.over(journal, [agent], clock=clock, entropy=entropy) as runtime:
        writer = Writer(runtime, clock, desk)
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
            state, difference = check(head.stream.removeprefix("run/"), events)
            assert difference is None, difference
            runs[state.run] = {"events": await types_in(journal, head.stream), **facts(state)}
        sessions = {head.stream.removeprefix("session/") async for head in journal.streams(prefix="session/")}
        return {
            "records": found.records,
            "root": found.root,
            "runs": runs,
            "sessions": {session: await session_facts(journal, session) for session in sorted(sessions)},
            "rules": await rule_facts(journal),
        }


async def types_in(journal: Journal, stream: str) -> list[str]:
    """The types of a stream's events, in order."""
    return [record.type async for record in journal.read(stream)]


def facts(state: RunState) -> dict[str, object]:
    """What a run came to."""
    told = status(state)
    humans = [message for message in state.messages if isinstance(message, Human)]
    return {
        "asked": text(humans[0].content) if humans else "",
        "agent": state.agent,
        "label": told.label,
        "failure": state.failure,
        "wake_at": told.wake_at,
        "steps": state.steps,
        "output": state.output,
        "definition": state.definition,
        "tokens": [state.usage.input_tokens, state.usage.output_tokens, state.usage.unknown],
        "cost": state.spent.cost,
        "calls": [state.spent.model_calls, state.spent.tool_calls],
        "in_doubt": [action.action for action in state.in_doubt],
        "awaiting": [[action.action, action.digest.hex()] for action in state.awaiting],
        "children": [[child.run, child.status] for child in state.children],
        "named": dict(state.named),
        "messages": [[message.role, message.id, str(message.content)] for message in state.messages],
        "chain": state.chain.hex(),
    }


async def session_facts(journal: Journal, session: str) -> dict[str, object]:
    """How a session stands, and what the next turn would be shown of it."""
    view = await read(journal, session)
    commands = Commands(journal, SystemClock(), SystemEntropy())
    return {
        "events": await types_in(journal, f"session/{session}"),
        "agent": view.agent,
        "turns": [[turn.run, turn.number, turn.status, turn.version] for turn in view.turns],
        "histories": [[message.id for message in await commands.history(turn.run)] for turn in view.turns],
    }


async def rule_facts(journal: Journal) -> dict[str, object]:
    """The standing rules."""
    rules = await Commands(journal, SystemClock(), SystemEntropy()).rules()
    return {
        "events": await types_in(journal, APPROVALS),
        "rules": [
            [rule.rule, rule.tool, rule.left, rule.revoked, rule.revoked_by and attrs.asdict(rule.revoked_by)]
            for rule in rules
        ],
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
