"""Scenes of the golden run journals for all that a run can do beyond the desk's scenes."""

from __future__ import annotations

from attrs import define
from tests.golden.company import PIXEL, Company
from tests.golden.player import Player

from trouper import EditReceipt, Human, Image, Limits, Principal, Raise, Run, Scope, SubmitOptions, WhatIf
from trouper.core.events import PauseRequested, ResumeRequested, SummaryFailed
from trouper.core.fork import Writes
from trouper.runtime import Task

SECOND = 1_000_000_000
DAY = 86_400


@define(eq=False)
class Scenes(Player):
    """Plays them; what is left open is played by `Leftovers`."""

    company: Company

    async def play(self) -> None:
        await self.families()
        await self.people_and_trees()
        await self.control()
        await self.hooks_and_state()
        await self.outputs()
        await self.limits()
        await self.votes()
        await self.rules()
        await self.permissions()
        await self.forks()
        await self.compaction()
        await self.conversation()

    # ---- sub-agents

    async def families(self) -> None:
        await self.played("lead", "delegate")
        await self.played("lead", "hand over")
        run = await self.submit("lead", "share", Limits(max_model_calls=2, on_limit="wait"))
        await self.until(await self.child(run), "over_budget")
        await run.raise_limit(Raise(model_calls=5), by="maria", reason="all of it")
        await self.ended(run)

    async def people_and_trees(self) -> None:
        run = await self.submit("lead", "lose one")
        child = await self.child(run)
        await self.asked(child)
        await child.cancel(by="otto", reason="not that one")
        await self.ended(run)
        run = await self.submit("lead", "lose all")
        await self.asked(await self.child(run))
        await run.cancel(by="otto")
        await self.ended(run)
        run = await self.submit("lead", "hold all")
        child = await self.child(run)
        (asked,) = await self.asked(child)
        # As where the run below began in the very moment of the pause: it is passed on.
        for event, label in ((PauseRequested(Principal("maria")), "paused"), (ResumeRequested(), "awaiting_approval")):
            await self.runtime.journal.append(f"run/{run.id}", [event])
            await self.until(child, label)
        await self.runtime.approve(asked.action, by="otto")
        await self.ended(run)

    async def child(self, run: Run) -> Run:
        """The run that its first call began."""
        await self.until(run, "waiting_for_child")
        return self.runtime.run(f"{run.id}~0.0")

    # ---- words, pauses, time

    async def control(self) -> None:
        run = await self.submit("clerk", "steer")
        (asked,) = await self.asked(run)
        await run.steer("Keep it short.", by="otto", command_id="chat-1")
        await self.until(run, "awaiting_approval")
        await run.pause(by="otto", reason="lunch")
        await self.until(run, "paused")
        await self.runtime.approve(asked.action, by="maria")
        await self.until(run, "paused")
        await run.resume(by="otto")
        await self.ended(run)

        deadline = self.clock.now() + 3600 * SECOND
        run = await self.submit("clerk", "in time", options=SubmitOptions(deadline=deadline))
        await self.asked(run)
        self.clock.advance(3600)
        await self.ended(run)
        await run.extend(deadline + DAY * SECOND, by="maria", reason="the bank is slow")
        await self.ended(run)

        run = await self.submit("clerk", "later", options=SubmitOptions(start_at=self.clock.now() + DAY * SECOND))
        await self.until(run, "scheduled")
        self.clock.advance(DAY)
        await self.ended(run)
        run = await self.submit("clerk", "sleep")
        await self.until(run, "sleeping")
        self.clock.advance(DAY)
        await self.ended(run)

    # ---- what happens around a model's reply

    async def hooks_and_state(self) -> None:
        for name in ("polite", "ping", "forbidden"):
            await self.played("careful", name)
        self.company.model.broken = True
        await self.played("careful", "fall back")
        self.company.model.broken = False
        await self.played("librarian", "collect", options=SubmitOptions(state={"ticket": "INC-1"}))
        await self.played("librarian", [Human("", ["look", Image(PIXEL)])])
        # As from a process that does not know the agent.
        task = Task("librarian", "misfit", by=Principal("otto"), options=SubmitOptions(state={"ticket": 5}))
        self.clock.advance(60)
        done = await self.runtime.commands.submit(task, "misfit")
        await self.ended(self.runtime.run(done.run))
        await self.played("mover", "move")
        await self.played("mover", "move badly")

    async def outputs(self) -> None:
        for agent, name in (("reader", "read"), ("teller", "tell"), ("teller", "mumble")):
            await self.played(agent, name)
        for name in ("close", "refuse"):
            await self.played("closer", name)

    # ---- limits

    async def limits(self) -> None:
        run = await self.submit("saver", "spend", Limits(max_tool_calls=2, soft=0.5, on_limit="wait"))
        await self.until(run, "over_budget")
        await run.raise_limit(Raise(tool_calls=2), by="maria", reason="worth it")
        await self.ended(run)
        await self.played("saver", "pay for it", Limits(max_tokens=20_000, max_cost=10**9))
        await self.played("saver", "wrap up", Limits(max_model_calls=1, tool_calls={"search": 1}, on_limit="finish"))
        run = await self.submit("saver", "in a minute", Limits(max_seconds=60))
        await self.asked(run)
        self.clock.advance(60)
        await self.ended(run)
        await run.raise_limit(Raise(seconds=60), by="maria")
        await self.ended(run)

    # ---- people

    async def votes(self) -> None:
        for amount in (15, 20_000):
            await self.played("treasurer", f"refund {amount}")
        run = await self.submit("treasurer", "refund 300")
        (asked,) = await self.asked(run)
        await self.runtime.approve(asked.action, by="otto", reason="order checked")
        await self.until(run, "awaiting_approval")
        await self.runtime.approve(asked.action, by="ida")
        await self.ended(run)
        run = await self.submit("treasurer", "refund 400")
        (asked,) = await self.asked(run)
        await self.runtime.approve(asked.action, by="otto")
        await self.until(run, "awaiting_approval")
        self.clock.advance(3600)
        async with self.runtime.journal.news() as news:
            while [each.eligible for each in await self.asked(run)] != [("eva",)]:
                await news.wait()
        await self.runtime.approve(asked.action, by="eva")
        await self.ended(run)

    async def rules(self) -> None:
        run = await self.submit("treasurer", "send once")
        (asked,) = await self.asked(run)
        scope = Scope(uses=2, until=self.clock.now() + DAY * SECOND)
        await self.runtime.approve(asked.action, by="otto", reason="as ever", remember=scope)
        await self.ended(run)
        await self.played("treasurer", "send again")
        (rule,) = await self.runtime.commands.rules()
        await self.runtime.commands.revoke_rule(rule.rule, by=Principal("eva"), reason="no more")
        run = await self.submit("treasurer", "send no more")
        (asked,) = await self.asked(run)
        await self.runtime.deny(asked.action, by="eva", reason="no more")
        await self.ended(run)

    async def permissions(self) -> None:
        await self.played("guard", "let go", options=SubmitOptions(grants=("crm:write",)))
        await self.played("guard", "let go without leave")

    async def forks(self) -> None:
        run = await self.played("payer", "pay what is due")
        await self.ended(await run.fork(WhatIf([EditReceipt("0.0", "5")]), by="otto", command_id="what if 5"))
        new: tuple[tuple[int, Writes], ...] = ((7, "block"), (8, "simulate"), (9, "ask"))
        for amount, writes in new:
            self.clock.advance(60)
            what_if = WhatIf(say=f"pay {amount}", writes=writes)
            fork = await run.fork(what_if, by="otto", command_id=f"what if {amount}")
            if writes == "ask":
                (asked,) = await self.asked(fork)
                await self.runtime.approve(asked.action, by="maria")
            await self.ended(fork)

    # ---- conversations

    async def compaction(self) -> None:
        session = self.runtime.session("talker", "cust-1")
        for said in ("hello", "hello again", "still here", "what was said"):
            self.clock.advance(60)
            await self.ended(await session.send(said, command_id=said, by="ann"))
        self.clock.advance(60)
        run = await session.send("and before", command_id="and before", by="ann")
        # The second attempt at a summary is made after a while.
        async with self.runtime.journal.news() as news:
            while SummaryFailed not in [type(event) for _, event in await run.events()]:
                await news.wait()
        self.clock.advance(60)
        await self.ended(run)

    async def conversation(self) -> None:
        session = self.runtime.session("mailer", "cust-2")
        first = await session.send("mail everybody", by="ann")
        await self.asked(first)
        self.clock.advance(60)
        second = await session.send("agreed", by="ann")
        await self.until(second, "queued")
        self.clock.advance(60)
        never = await session.send("never answered", by="ann")
        await self.until(never, "queued")
        await never.cancel(by="ann")
        await self.ended(never)
        self.clock.advance(60)
        third = await session.send("only maria", by="ann", supersede=True)
        for run in (first, second, third):
            await self.ended(run)
        self.clock.advance(60)
        self.company.model.broken = True
        run = await session.send("break down", by="ann")
        await self.ended(run)
        self.company.model.broken = False
        await run.resume(by="otto", reason="mended")
        await self.ended(run)


@define(eq=False)
class Leftovers(Scenes):
    """Plays what is left open, for a later release to take up."""

    async def play(self) -> None:
        await self.asked(await self.child(await self.submit("lead", "tree left")))
        await self.until(await self.submit("clerk", "sleep left"), "sleeping")
        run = await self.submit("saver", "spend left", Limits(max_tool_calls=2, on_limit="wait"))
        await self.until(run, "over_budget")
        run = await self.submit("treasurer", "refund 500")
        (asked,) = await self.asked(run)
        await self.runtime.approve(asked.action, by="otto")
        await self.until(run, "awaiting_approval")
        session = self.runtime.session("mailer", "cust-3")
        self.clock.advance(60)
        await self.asked(await session.send("mail left", by="ann"))
        self.clock.advance(60)
        await self.until(await session.send("next left", by="ann"), "queued")
