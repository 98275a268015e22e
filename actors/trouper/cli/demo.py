"""``trouper demo``: an agent is killed three times on its way, and nothing is lost, repeated or paid for twice."""

from __future__ import annotations

import shlex
import signal
import sys
import tempfile
import textwrap
from contextlib import ExitStack
from pathlib import Path

import click
import trio
from attrs import define, field, frozen
from rich.text import Text

from trouper.cli.codes import ConflictError, Exit
from trouper.cli.command import command, run_async
from trouper.cli.demo_backstage import PATIENCE, Backstage, Child, DemoError
from trouper.cli.demo_world import CLOSE, LOOKUP, REQUEST, TICKET, World, lines
from trouper.cli.journals import opened
from trouper.cli.looking import Story, print_story, read_story
from trouper.cli.output import Output, grid, styled, typed
from trouper.cli.timeline import Told, command_line, program
from trouper.core.events import ApprovalRequested
from trouper.core.replay import check
from trouper.core.status import status
from trouper.narration.line import Line
from trouper.narration.plain import SECOND
from trouper.narration.text import count
from trouper_journal import Verification

_MODEL_REPLIES = 3


@command
@click.option("--journal", type=click.Path(path_type=Path, readable=False), help="Keep the journal in this new file.")
@click.option("--keep", is_flag=True, help="Keep the temporary folder, to look around in.")
def demo(output: Output, /, journal: Path | None, *, keep: bool) -> Exit:
    """See an agent survive three kills. Needs no key and no server, and takes some seconds.

    A daemon is started and really killed (SIGKILL), three times, at the worst moments. At the end everything claimed is
    counted outside of the journal; the exit code is 0 only if all of it is true.
    """
    with ExitStack() as stack:
        if journal is None and keep:
            journal = Path(tempfile.mkdtemp(prefix="trouper-demo-")) / "demo.db"
        elif journal is None:
            journal = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trouper-demo-"))) / "demo.db"
        elif journal.exists():
            raise ConflictError(f"{journal} exists already: the demo begins with a new journal")
        else:
            keep = True
        journal = journal.resolve()
        return run_async(Demo(output, journal, World.beside(journal), Backstage(journal), keep).run)


@frozen
class Claim:
    """Something that the demo says is so, and what was found."""

    claim: str
    found: str
    ok: bool


@define
class Demo:
    """The play."""

    output: Output
    journal: Path
    world: World
    backstage: Backstage
    kept: bool
    runs: set[str] = field(factory=set)
    action: str = ""
    approver: int = 0
    answer: str = ""

    async def run(self) -> Exit:
        """All acts, then the reckoning."""
        began = self.backstage.clock.now()
        self.introduce()
        await self.first_life()
        await self.second_life()
        await self.approve()
        await self.third_life()
        await self.last_life()
        return await self.reckon(began)

    # ---- the acts

    def introduce(self) -> None:
        """Say what this is about."""
        self.heading("An agent, one ticket, three kills")
        self.prose(
            "An agent is a program in which a language model decides what to do next: which tool to call, with what. "
            "If its process dies halfway, a plain program has forgotten everything: it asks and pays the model again, "
            "and perhaps does again what it has done already. Trouper writes each thing that happens into a journal, a "
            "file that is only ever added to, before it goes on. What a run has come to is worked out from the journal "
            "alone, so whoever reads it from the top knows where to go on."
        )
        self.prose(
            "The model here is a script, so that no key is needed. The processes, the kills and the files are real."
        )

    async def first_life(self) -> None:
        """Killed after the model's answer is journaled."""
        self.heading(f"1  A customer asks: {REQUEST!r}")
        async with self.backstage.daemon(LOOKUP) as child:
            self.began(child)
            self.runs.add(str((await child.expect("run"))["run"]))
            await child.expect("at")
            self.step(f'The model was asked what to do and said: call {LOOKUP}("{TICKET}"). That is in the journal.')
            self.step("The tool has begun, and is not done.")
            await self.end(child, "after the model's answer was journaled")

    async def second_life(self) -> None:
        """Killed while an approval is pending."""
        self.heading("2  Again, from the journal")
        async with self.backstage.daemon("") as child:
            self.began(child)
            self.runs.add(str((await child.expect("run"))["run"]))
            self.step("It gives the same request under the same command id: that is the same run, not a second one.")
            self.step(f"The model's answer is read, not asked for again. {LOOKUP} only reads, so it simply runs again.")
            self.action = await self.approval_asked_for()
            self.step(f"Next the model wants {CLOSE}: that changes something, so a person has to agree. The run waits.")
            await self.end(child, "while an approval was pending")

    async def approve(self) -> None:
        """A person decides, in a process of her own, while no daemon runs."""
        self.heading("3  Meanwhile, in another terminal")
        self.step("No daemon is running. The question is in the journal, and that is where maria answers it:")
        words = ["approve", str(self.journal), self.action, "--as", "maria", "--reason", "checked with the customer"]
        self.show(typed(f"$ {shlex.join([program(), *words])}"))
        approving = [sys.executable, "-m", "trouper.cli", *words]
        async with self.backstage.spawned(approving) as process:
            self.approver = process.pid
            assert process.stdout is not None
            said = b"".join([part async for part in process.stdout])
            if await process.wait() != 0:
                raise DemoError(
                    f"trouper approve ended with exit code {process.returncode}: {self.backstage.last_words()}"
                )
        for line in said.decode().splitlines():
            self.show(styled(f"  {line}", "dim"))
        name = self.action.rpartition("/")[2]
        self.step(f"{name} names the call: its model answer and its place in that answer, both counted from 0.")
        self.step(
            "asserted: that she is maria is only what was typed, checked by nobody; os-user is whom the operating "
            "system knows to have typed it. Both are recorded."
        )

    async def third_life(self) -> None:
        """Killed between an effect and its receipt."""
        self.heading("4  The worst moment")
        async with self.backstage.daemon(CLOSE) as child:
            self.began(child)
            await child.expect("at")
            self.step(f"It finds the approval and closes {TICKET} in the ticket system, which is not part of Trouper.")
            self.step("The ticket is closed; the receipt that says so is not in the journal yet.")
            await self.end(child, "between an effect and its receipt")

    async def last_life(self) -> None:
        """To the end."""
        self.heading("5  Did it happen, or not?")
        self.step("The journal says: begun, no receipt. Nobody can tell from that whether the ticket was closed.")
        self.step(
            f"So it matters what the tool has promised. {CLOSE} is declared an idempotent_write: it gives the ticket "
            "system a key that stays the same on every attempt, and the system does nothing for a key that it knows."
        )
        async with self.backstage.daemon("") as child:
            self.began(child)
            self.runs.add(str((await child.expect("run"))["run"]))
            self.answer = str((await child.expect("output"))["output"])
            if await child.process.wait() != 0:
                raise DemoError(
                    f"the last daemon ended with exit code {child.process.returncode}: {self.backstage.last_words()}"
                )
        self.step(f"It asks again, under the same key. The model has the last word: {self.answer!r}")

    # ---- what the acts are made of

    def heading(self, text: str) -> None:
        """A new act."""
        self.show(Text(), styled(text, "bold"))

    def prose(self, text: str) -> None:
        """A paragraph."""
        # A terminal wraps by its own width; a file gets lines that can be read.
        self.show(styled(text if self.output.for_people else textwrap.fill(text, 100)))

    def step(self, text: str) -> None:
        """One thing that happened."""
        table = grid(pad=1)
        table.add_row(styled(" -", "dim"), text if self.output.for_people else textwrap.fill(text, 97))
        if not self.output.as_json:
            self.output.result(table)

    def show(self, *what: Text) -> None:
        """Print, unless a program is listening."""
        if not self.output.as_json:
            self.output.result(*what)

    def began(self, child: Child) -> None:
        """A daemon has been started."""
        self.step(f"A daemon is started: process {child.process.pid}.")

    async def end(self, child: Child, when: str) -> None:
        """Kill a daemon, and say so."""
        kill = await self.backstage.kill(child, when)
        self.show(Text.assemble((" x ", "bold red"), (f"kill -9 {kill.process}", "bold red"), f"  {when}"))

    async def approval_asked_for(self) -> str:
        """Wait until the journal shows a request for approval; the action's id."""
        with trio.move_on_after(PATIENCE):
            async with opened(self.journal) as journal:
                async for record in journal.tail():
                    event = journal.registry.decode(record)
                    if isinstance(event, ApprovalRequested):
                        return f"{record.stream.removeprefix('run/')}/{event.action}"
        raise DemoError(f"no request for approval in {PATIENCE:.0f} seconds")

    # ---- the reckoning

    async def reckon(self, began: int) -> Exit:
        """Tell the whole story, then check every claim from outside."""
        (name, *more) = sorted(self.runs)
        async with opened(self.journal) as journal:
            story = await read_story(journal, name)
            difference = check(name, [journal.registry.decode(record) async for record in journal.read(f"run/{name}")])[
                1
            ]
            verified = await journal.verify()
        claims = self.claims(story, verified, same_run=not more, replays=difference is None)
        ok = all(claim.ok for claim in claims)
        seconds = (self.backstage.clock.now() - began) / SECOND
        if self.output.as_json:
            self.output.json(self.facts(story, claims, verified, seconds))
        else:
            self.tell(story, claims, seconds)
        return Exit.OK if ok else Exit.BAD

    def claims(self, story: Story, verified: Verification, *, same_run: bool, replays: bool) -> list[Claim]:
        """What was claimed, with what was found: in the outside files where it is about the outside."""
        closed, asked, bill = lines(self.world.tickets), lines(self.world.calls), lines(self.world.bill)
        turns = [line["turn"] for line in bill]
        dead = sum(kill.code == -signal.SIGKILL for kill in self.backstage.kills)
        state = story.state
        label = status(state).label if state is not None else "unreadable"
        found = state.action(self.action.rpartition("/")[2]) if state is not None else None
        by = found.decision.by.id if found and found.decision and found.decision.by else "nobody"
        return [
            Claim("three kills", f"{dead} daemons ended by SIGKILL", dead == len(self.backstage.kills) == 3),
            Claim("one run", f"{label}: {self.answer}", same_run and label == "succeeded"),
            Claim(
                "one effect",
                f"{count(len(closed), 'ticket')} closed, though the ticket system was asked {len(asked)} times",
                len(closed) == 1 and len(asked) == 2,
            ),
            Claim(
                "one bill",
                f"the model replied {_MODEL_REPLIES} times, and {len(bill)} requests are on its bill",
                turns == list(range(_MODEL_REPLIES)),
            ),
            Claim("one approval", f"by {by}, from process {self.approver}", by == "maria"),
            Claim("replay", "the rules take the recorded steps" if replays else "the rules differ", replays),
            Claim("verify", f"{verified.grade}: {count(verified.records, 'record')}", verified.ok),
        ]

    def tell(self, story: Story, claims: list[Claim], seconds: float) -> None:
        """The timeline, with the kills put in, and the closing table."""
        self.heading("What the journal tells (trouper show), with the kills put in: those it could not write down")
        marks = [
            Told(kill.at, Line("kill -9", f"process {kill.process} dies {kill.when}", "bad"))
            for kill in self.backstage.kills
        ]
        story.lines = sorted([*story.lines, *marks], key=lambda told: told.at)
        self.prose(
            "How to read it: the time since the request, who, and what. 0.0 is a call, by its model answer and its "
            "place in that, counted from 0; so 1.0 is the first call of the second answer. An epoch is one process's "
            "time of driving the journal: each that takes it over counts one more, and what an earlier one would "
            "still write is refused. (asserted, ...) is how far a name can be trusted: it was claimed, not checked."
        )
        self.show(Text())
        print_story(self.output, story, self.journal)
        self.heading("Counted in files outside of the journal, and checked")
        table = grid()
        for claim in claims:
            mark = styled("true" if claim.ok else "FALSE", "green" if claim.ok else "bold red")
            table.add_row(mark, styled(claim.claim, "bold"), claim.found)
        self.output.result(table, Text())
        self.show(styled(f"All of it took {seconds:.1f} seconds.", "dim"))
        if self.kept:
            self.show(styled("To look around:", "dim"), typed(command_line("show", self.journal, story.run)))
        else:
            self.show(styled("The journal is gone again. To keep one, and look around in it afterwards:", "dim"))
            self.show(typed(f"{shlex.quote(program())} demo --keep"))

    def facts(self, story: Story, claims: list[Claim], verified: Verification, seconds: float) -> dict[str, object]:
        """Everything for programs."""
        return {
            "ok": all(claim.ok for claim in claims),
            "run": story.run,
            "file": str(self.journal) if self.kept else None,
            "answer": self.answer,
            "kills": [
                {"process": kill.process, "signal": -kill.code, "when": kill.when} for kill in self.backstage.kills
            ],
            "effects": len(lines(self.world.tickets)),
            "effect_calls": len(lines(self.world.calls)),
            "model_requests": len(lines(self.world.bill)),
            "approval": {"action": self.action, "process": self.approver},
            "verify": {"grade": verified.grade, "records": verified.records, "root": verified.root},
            "claims": [{"claim": claim.claim, "found": claim.found, "ok": claim.ok} for claim in claims],
            "seconds": round(seconds, 2),
        }
