"""``trouper run``: ask an agent, and drive its journal until the answer is there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import attrs
import click
import trio
from attrs import define, field
from rich.text import Text

from trouper.cli.codes import Exit, UsageError
from trouper.cli.command import command, run_async
from trouper.cli.journals import find_run, keys_of, opened, person
from trouper.cli.loading import Loaded, load
from trouper.cli.output import Output, styled, typed
from trouper.cli.timeline import Told, approval_wanted, command_line, doubt_to_settle, timeline
from trouper.core.evolve import evolve
from trouper.core.state import Action, Phase, RunState
from trouper.core.status import AWAITING, DRIFTED, IN_DOUBT
from trouper.errors import RunError, TrouperError
from trouper.narration.narrate import Narrator
from trouper.narration.plain import action_json, answer_text, record_json, state_json
from trouper.narration.spending import spent_text
from trouper.narration.text import clean, count
from trouper.runtime import Run, RunResult, Runtime, RuntimeOptions, SubmitOptions
from trouper_journal import Record

_FILE = click.Path(path_type=Path, readable=False)


_NEEDS_A_PERSON = frozenset({AWAITING, IN_DOUBT, DRIFTED})


class Options(TypedDict):
    """Options of ``trouper run``."""

    journal: Path
    resume: str | None
    adopt: bool
    command_id: str | None
    name: str | None
    max_steps: int | None
    secrets: Sequence[str]
    grants: Sequence[str]


@command
@click.argument("target", metavar="FILE:AGENT")
@click.argument("asked", metavar="[INPUT]", required=False)
@click.option("--journal", type=_FILE, default="trouper.db", show_default=True, help="The file.")
@click.option("--command-id", metavar="ID", help="Names the request: repeated, it is the same run and costs nothing.")
@click.option("--resume", metavar="RUN", help="Ask nothing new: drive this run to its end.")
@click.option("--adopt", is_flag=True, help="With --resume: go on though the agent's definition has changed.")
@click.option("--as", "name", metavar="NAME", help="Who asks; your system user's name if left out.")
@click.option("--max-steps", type=click.IntRange(min=1), help="At most so many steps, instead of the agent's limit.")
@click.option("--secret", "secrets", metavar="NAME=VARIABLE", multiple=True, help="A secret, from the environment.")
@click.option("--grant", "grants", metavar="NAME", multiple=True, help="A permission that the run has.")
def run(output: Output, /, target: str, asked: str | None, **options: Unpack[Options]) -> Exit:
    """Ask an agent of a Python file, and wait for its answer.

    FILE is run as a module; AGENT is one of its variables, or an agent's name. Progress goes to standard error, the
    answer alone to standard output. What else waits in the journal for agents of the file goes on, too.
    """
    if (asked is None) == (options["resume"] is None):
        raise UsageError("give either INPUT or --resume RUN")
    if asked is not None and not asked.strip():
        raise UsageError("INPUT is empty: say what you ask of the agent")
    if options["adopt"] and options["resume"] is None:
        raise UsageError("--adopt goes with --resume RUN")
    loaded = load(target)
    secrets = dict(_secret(given) for given in options["secrets"])

    async def main() -> Exit:
        runtime_options = RuntimeOptions(node="trouper run")
        agents = [loaded.agent, *loaded.others]
        resumed = None
        if options["resume"] is not None:
            # Looked up before the journal is driven: a mistyped id must not set other runs going.
            async with opened(options["journal"]) as journal:
                resumed = await find_run(journal, options["resume"])
        keys = keys_of(options["journal"], made=True)
        async with Runtime.open(
            options["journal"], agents, secrets=secrets, options=runtime_options, keys=keys
        ) as runtime:
            if resumed is not None:
                found = runtime.run(resumed)
                if options["adopt"]:
                    await runtime.adopt(found.id, by=person(options["name"]))
            else:
                found = await _submit(runtime, loaded, asked or "", options)
            return await _Watcher(output, runtime, found, options["journal"].resolve(), target).watch()

    return run_async(main)


def _secret(given: str) -> tuple[str, str]:
    name, equals, variable = given.rpartition("=")
    if not equals:
        raise UsageError(f"--secret {given}: expected NAME=VARIABLE, with the name of an environment variable")
    value = os.environ.get(variable)  # noqa: TID251 -- the command line is where the environment is read
    if value is None:
        raise UsageError(f"--secret {given}: there is no environment variable {variable}")
    return name, value


async def _submit(runtime: Runtime, loaded: Loaded, asked: str, options: Options) -> Run:
    agent = loaded.agent
    steps = options["max_steps"]
    limits = None if steps is None else attrs.evolve(agent.limits, max_steps=steps)
    by = person(options["name"])
    asking = SubmitOptions(grants=tuple(options["grants"]))
    return await runtime.submit(
        agent.name, asked, command_id=options["command_id"], limits=limits, by=by, options=asking
    )


@define
class _Watcher:
    """Prints what happens to a run as it happens."""

    output: Output
    runtime: Runtime
    run: Run
    journal: Path
    target: str
    _state: RunState = field(init=False)
    _narrator: Narrator = field(factory=Narrator, init=False)
    _start: int | None = field(default=None, init=False)
    _drift: tuple[str, ...] | None = field(default=None, init=False)
    _told: set[str] = field(factory=set, init=False)
    _result: RunResult | None = field(default=None, init=False)
    _failure: TrouperError | None = field(default=None, init=False)

    async def watch(self) -> Exit:
        """Print until the run has ended; how it did.

        Raises:
            RunError: It did not succeed.
        """
        self._state = RunState(self.run.id)
        again = "; this command was given before" if self.run.repeated else ""
        self._note(styled(f"run {self.run.id} in {self.journal}{again}", "dim"))
        stopped = True
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait, nursery.cancel_scope)
                await self._follow()
            stopped = False
        finally:
            if stopped:
                resume = command_line("run", Path(self.target), "--journal", str(self.journal), "--resume", self.run.id)
                self.output.note(styled(f"stopped; the run goes on with: {resume}"))
        await self._catch_up()
        if self.output.as_json:
            self.output.json({"kind": "result", **state_json(self._state)})
        if self._failure is not None:
            raise self._failure
        self._print_answer()
        return Exit.OK

    async def _wait(self, scope: trio.CancelScope) -> None:
        try:
            self._result = await self.run.wait()
        except TrouperError as error:
            self._failure = error
        scope.cancel()

    async def _follow(self) -> None:
        async with self.runtime.journal.news() as news:
            while True:
                await self._catch_up()
                await news.wait()

    async def _catch_up(self) -> None:
        if isinstance(self._failure, TrouperError) and not isinstance(self._failure, RunError):
            return
        for record, event in await self.run.events(after=self._state.version):
            self._state = evolve(self._state, event)
            self._tell(record, event)
        self._tell_of_drift()
        self._ask_of(self._state)
        if any(not child.ended for child in self._state.children):
            for child in await self.run.children():
                if child.status in _NEEDS_A_PERSON:
                    self._ask_of(await self.runtime.commands.state(child.run))

    def _ask_of(self, state: RunState) -> None:
        """Ask for what a run waits for, if that was not asked before."""
        for action in (*state.awaiting, *state.in_doubt):
            asked = f"{state.run}/{action.action} {action.phase} {max(action.request, action.attempt)}"
            # Somebody's vote, or other arguments, make it another question to whoever has still to decide.
            asked += f" {action.digest.hex()} {len(action.consent.votes)}"
            if asked not in self._told and not state.ended:
                self._told.add(asked)
                self._ask(state, action)

    def _tell(self, record: Record, event: object) -> None:
        if self.output.as_json:
            self.output.json({"kind": "event", **record_json(record, event)})
            return
        self._start = record.recorded_at if self._start is None else self._start
        for line in (self._narrator.handover(record), self._narrator.tell(record, event)):
            if line is not None:
                self.output.note(timeline([Told(record.recorded_at, line)], self._start))

    def _tell_of_drift(self) -> None:
        drift = self._state.drift
        if drift is not None and drift != self._drift and not self.output.as_json:
            adopt = command_line(
                "run", Path(self.target), "--journal", str(self.journal), "--resume", self.run.id, "--adopt"
            )
            self.output.note(
                styled("Ctrl-C leaves it held. It goes on as the agent is defined now with:"), typed(adopt)
            )
        self._drift = drift

    def _ask(self, state: RunState, action: Action) -> None:
        if self.output.as_json:
            kind = "approval" if action.phase is Phase.AWAITING else "doubt"
            self.output.json({"kind": kind, **action_json(state, action)})
        elif action.phase is Phase.AWAITING:
            self.output.note(Text(), *approval_wanted(state, action, self.journal), Text())
        else:
            self.output.note(Text(), *doubt_to_settle(state, action, self.journal), Text())

    def _note(self, text: Text) -> None:
        if self.output.as_json:
            self.output.json({"kind": "run", "run": self.run.id, "repeated": self.run.repeated})
        else:
            self.output.note(text)

    def _print_answer(self) -> None:
        if self._result is None or self.output.as_json:
            return
        answer = answer_text(self._state) or ""
        # A program gets the answer as the model gave it; a terminal must not obey it.
        self.output.raw(clean(answer, keep="\n\t") if self.output.for_people else answer)
        tokens = spent_text(self._result.spent)
        self.output.note(styled(f"succeeded after {count(self._result.steps, 'step')}; {tokens}", "green"))
