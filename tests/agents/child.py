"""A process of its own for agent tests: ``python -m tests.agents.child JOB``, where JOB is a job in JSON.

It prints ``ready`` once it has opened what it needs, waits for a line on its standard input where the job says so, and
prints what came of it as a line of JSON. `Child` is the other end.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias, final

import attrs
import cattrs
import trio
from tests.agents.office import Office, World

from trouper import REGISTRY, Agent, Commands, Limits, Principal, Runtime
from trouper._clock import SystemClock
from trouper._ids import SystemEntropy
from trouper.core.commands import Judgement
from trouper.core.conversation import Value
from trouper.errors import TrouperError
from trouper.runtime import Task
from trouper_adapters.openai import OpenAIModel
from trouper_journal import Journal

ROOT = Path(__file__).parents[2]
Said: TypeAlias = dict[str, object]


@attrs.frozen
class Job:
    """What a child does.

    Attributes:
        do: ``drive``: open a runtime, submit ``input`` if there is one, and wait until the run has ended. ``submit``,
            ``approve``, ``deny``: that command on the journal. ``vote``: approve, and tell who has.
            ``fold``: fold each run, and tell the states' digests.
        path: The journal's file.
        url: The model server.
        effects: The file that effects go to.
        tools: Names of the world's tools that the agent has.
        barrier: Whether to wait for a line before doing it.
    """

    do: Literal["drive", "submit", "approve", "deny", "vote", "fold"]
    path: str
    url: str = ""
    effects: str = ""
    tools: tuple[str, ...] = ()
    limits: Limits | None = None
    input: str = ""
    command_id: str | None = None
    action: str = ""
    arguments: Mapping[str, object] | None = None
    by: str = "maria"
    barrier: bool = False


# ---- in the child


async def drive(job: Job) -> Said:
    world = World(Path(job.effects))
    made = {"add": world.adder, "send_email": world.mailer, "pay": world.keyed, "hang": world.hanger}
    agent = Agent(
        "desk",
        "Do what is asked.",
        tools=[made[name]() for name in job.tools],
        model=OpenAIModel("m", base_url=job.url, api_key="sk-test"),
    )
    async with Runtime.open(job.path, [agent]) as runtime:
        await begin(job)
        run = await runtime.submit("desk", job.input, command_id=job.command_id, limits=job.limits)
        return {"output": (await run.wait()).output}


async def command(job: Job, commands: Commands) -> Said:
    by = Principal(job.by)
    match job.do:
        case "submit":
            done = await commands.submit(Task("desk", job.input, job.limits, by), job.command_id)
            return {"run": done.run, "repeated": done.repeated}
        case "approve":
            edit: dict[str, Value] | None = None if job.arguments is None else dict(job.arguments)  # type: ignore[arg-type]  # from JSON
            action = await commands.decide(job.action, Judgement("approve", by, arguments=edit))
        case "vote":
            voted = await commands.decide(job.action, Judgement("approve", by))
            return {"votes": [vote.by.id for vote in voted.consent.votes if vote.by is not None]}
        case "deny":
            action = await commands.decide(job.action, Judgement("deny", by))
        case _:
            folded: Said = {}
            async for head in commands.runs():
                state = await commands.state(head.stream.removeprefix("run/"))
                folded[state.run] = hashlib.sha256(repr(state).encode()).hexdigest()
            return folded
    if action.decision is None:
        return {"decision": None}
    return {"decision": action.decision.decision, "by": action.decision.by.id if action.decision.by else None}


async def begin(job: Job) -> None:
    """Be ready, and wait for the word where that is wanted."""
    print("ready", flush=True)
    if job.barrier:
        await trio.to_thread.run_sync(sys.stdin.readline)


async def live(job: Job) -> Said:
    try:
        if job.do == "drive":
            return await drive(job)
        async with Journal.open(job.path, registry=REGISTRY) as journal:
            commands = Commands(journal, SystemClock(), SystemEntropy())
            await begin(job)
            return await command(job, commands)
    except TrouperError as error:
        return {"error": type(error).__name__, "message": str(error)}


def main() -> None:
    job = cattrs.structure(json.loads(sys.argv[1]), Job)
    print(json.dumps(trio.run(live, job)), flush=True)


# ---- in the test


@final
class Child:
    """A child process."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._read = b""

    async def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        while b"\n" not in self._read:
            more = await self._process.stdout.receive_some(4096)
            assert more, f"the child ended with {await self._process.wait()}"
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    async def ready(self) -> None:
        """Wait until it has opened what it needs."""
        assert await self.line() == "ready"

    async def go(self) -> None:
        """Give the word."""
        assert self._process.stdin is not None
        await self._process.stdin.send_all(b"go\n")

    async def said(self) -> Said:
        """What came of its job."""
        told: Said = json.loads(await self.line())
        assert await self._process.wait() == 0
        return told

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def child(job: Job) -> AsyncIterator[Child]:
    """A child process for the length of a block; killed at its end if it still lives."""
    command = [sys.executable, "-m", "tests.agents.child", json.dumps(cattrs.unstructure(job))]
    process = await trio.lowlevel.open_process(command, stdin=-1, stdout=-1, cwd=ROOT)
    try:
        yield Child(process)
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()


def driving(desk: Office, *tools: str, input: str = "Go.", limits: Limits | None = None) -> Job:
    """The job to drive one run in an office's journal; repeated, it is the same run."""
    return Job(
        "drive",
        str(desk.path),
        desk.stub.url,
        str(desk.world.path),
        tools,
        input=input,
        command_id="job",
        limits=limits,
    )


async def do(job: Job) -> Said:
    """Have a job done by a process of its own."""
    async with child(job) as process:
        await process.ready()
        return await process.said()


if __name__ == "__main__":
    main()
