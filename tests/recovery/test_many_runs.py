"""Ten thousand runs that had not ended are taken up again, a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from trouper import AI, REGISTRY, Agent, Human, Message, ModelReply, Runtime, RuntimeOptions, ToolSpec
from trouper.core.conversation import Value
from trouper.core.events import RunSubmitted
from trouper.core.exchange import ModelConfig
from trouper_journal import Domain, Journal, JournalOptions, Write
from trouper_journal.testing import FaultyStore

RUNS = 10_000
ROOM = 40
FAST = JournalOptions(durability="normal", max_batch=2000)
"""A power failure is not what is tested."""


async def submitted(path: Path, count: int) -> None:
    """A journal as it is after so many submits, written in a few transactions."""
    async with Journal.open(path, registry=REGISTRY, options=FAST) as journal:
        for start in range(0, count, 1000):
            writes = []
            for number in range(start, start + 1000):
                stream, salt = f"run/{number:026d}", number.to_bytes(32)
                event = RunSubmitted("desk", input=(Human(f"{number}/input", "go"),), salt=salt)
                writes.append(Write(stream, [event], expected=0, label="running", domain=Domain(stream, salt)))
            await journal.commit(writes)


class Watching:
    """A model that looks how many runs are in memory whenever it is asked."""

    name = "watching"

    def __init__(self) -> None:
        self.asked = 0
        self.most = 0
        self.runtime: Runtime | None = None

    def identity(self) -> dict[str, Value]:
        return {"model": self.name}

    def look(self) -> None:
        if self.runtime is not None:
            self.most = max(self.most, self.runtime.active)

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), config: ModelConfig | None = None
    ) -> ModelReply:
        self.asked += 1
        self.look()
        await trio.lowlevel.checkpoint()
        self.look()
        return ModelReply(AI("", "done"), "stop")


async def test_ten_thousand_unfinished_runs_are_recovered_a_few_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await submitted(path, RUNS)
    model = Watching()

    async def look(_: object) -> None:
        model.look()

    async def ended(journal: Journal) -> int:
        return sum([1 async for _ in journal.streams(label="succeeded", prefix="run/")])

    async with (
        Journal.open(
            path, registry=REGISTRY, options=FAST, wrap=lambda store: FaultyStore(store, before_write=look)
        ) as journal,
        Runtime.over(journal, [Agent("desk", model=model)], options=RuntimeOptions(max_active=ROOM)) as runtime,
    ):
        model.runtime = runtime
        # Ids are in order, and the oldest are taken up first: when the last has ended, the others are on their way.
        await runtime.run(f"{RUNS - 1:026d}").wait()
        async with journal.news() as news:
            while await ended(journal) < RUNS:
                await news.wait()
        assert model.asked == RUNS
        assert 1 < model.most <= ROOM
        assert runtime.active <= ROOM
    async with Journal.open(path, registry=REGISTRY) as journal:
        assert (await journal.verify()).ok
        assert [head.label async for head in journal.streams(prefix="run/")] == ["succeeded"] * RUNS


async def test_waiting_runs_are_not_loaded_at_all(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with Journal.open(path, registry=REGISTRY, options=FAST) as journal, journal.drive("test") as fence:
        writes = []
        for number in range(1000):
            stream, salt = f"run/{number:026d}", number.to_bytes(32)
            event = RunSubmitted("desk", input=(Human(f"{number}/input", "go"),), salt=salt)
            domain = Domain(stream, salt)
            writes.append(Write(stream, [event], expected=0, label="awaiting_approval", wake_at=None, domain=domain))
        await journal.commit(writes, fence=fence)
    model = Watching()
    async with Runtime.open(path, [Agent("desk", model=model)]) as runtime:
        model.runtime = runtime
        run = await runtime.submit("desk", "go")
        await run.wait()
        assert (model.asked, model.most) == (1, 1)
