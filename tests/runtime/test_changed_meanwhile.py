"""Agents and tools that change while a run waits: what is asked for, what was decided on, and what is left alone."""

from __future__ import annotations

import attrs
import pytest
from tests.agents.office import happened, of, pending, types, until
from tests.runtime.house import House, house

from trouper import (
    Agent,
    ApprovalError,
    DriftPolicy,
    PendingApproval,
    Principal,
    Run,
    RunCancelled,
    Runtime,
    ToolMessage,
    tool,
)
from trouper.core.commands import Judgement
from trouper.core.events import (
    ActionReplanned,
    ActionStarted,
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    DefinitionAdopted,
)
from trouper.testing import ScriptedModel, call, calls

ADOPT_ALL = DriftPolicy(contract="adopt", prose="adopt")
WAIT_ALL = DriftPolicy(contract="wait", prose="wait")


@attrs.define
class Post:
    """A mailer of any version."""

    sent: list[str] = attrs.Factory(list)

    def agent(self, version: str = "1", *, count: int = 1, instructions: str = "") -> Agent:
        @tool(requires_approval=True, version=version)
        async def mail(to: str) -> str:
            """Write to somebody."""
            self.sent.append(f"{version}: {to}")
            return f"sent to {to}"

        asked = calls(*(call("mail", to="abc"[n]) for n in range(count)))
        return Agent("desk", instructions, tools=[mail], model=ScriptedModel([asked, "done"], by_turn=True))


async def answers(run: Run) -> list[object]:
    result = await run.wait()
    return [message.content for message in result.messages if isinstance(message, ToolMessage)]


async def waiting(place: House, post: Post, count: int = 1) -> tuple[str, list[PendingApproval]]:
    """A run whose calls wait for a person; the runtime that began it is gone."""
    async with place.open(post.agent(count=count)) as runtime:
        run = await runtime.submit("desk", "Go.")
        asked = await pending(runtime, count)
        await until(runtime, run.id, "awaiting_approval")
    return run.id, asked


# ---- edits


async def edit(place: House, asked: PendingApproval, to: str) -> None:
    await place.commands.decide(asked.action, Judgement("approve", Principal("maria"), arguments={"to": to}))


async def asked_again(place: House, runtime: Runtime, run: str, count: int) -> PendingApproval:
    """What is asked for once the change has been seen."""
    await happened(runtime, runtime.run(run), ApprovalRequested, count)
    (asked,) = await pending(runtime)
    return asked


async def test_an_edit_after_an_edit_that_lapsed_leaves_the_models_own_call_on_record() -> None:
    post = Post()
    async with house() as place:
        run_id, (first,) = await waiting(place, post)
        await edit(place, first, "b")
        async with place.open(post.agent("2"), drift=ADOPT_ALL) as runtime:
            second = await asked_again(place, runtime, run_id, 2)
            assert second.arguments == {"to": "a"}
        await edit(place, second, "c")
        async with place.open(post.agent("3"), drift=ADOPT_ALL) as runtime:
            third = await asked_again(place, runtime, run_id, 3)
            assert third.arguments == {"to": "a"}
            assert len({first.digest, second.digest, third.digest}) == 3
            action = await runtime.approve(third.action, by="peter", arguments={"to": "d"})
            assert (action.arguments, action.original) == ({"to": "d"}, {"to": "a"})
            run = runtime.run(run_id)
            assert await answers(run) == ['[peter changed the arguments; what ran: {"to":"d"}]\nsent to d']
            assert post.sent == ["3: d"]
            assert len(await of(run, ActionReplanned)) == 2


async def test_a_plain_approval_after_an_edit_that_lapsed_runs_the_models_own_call() -> None:
    post = Post()
    async with house() as place:
        run_id, (first,) = await waiting(place, post)
        await edit(place, first, "b")
        async with place.open(post.agent("2"), drift=ADOPT_ALL) as runtime:
            second = await asked_again(place, runtime, run_id, 2)
            action = await runtime.approve(second.action, by="peter")
            assert action.original is None
            assert action.decision is not None
            assert not action.decision.edited
            assert await answers(runtime.run(run_id)) == ["sent to a"]
        assert post.sent == ["2: a"]


# ---- what the approver saw


async def test_an_approval_of_a_call_that_was_shown_otherwise_is_refused() -> None:
    """The id is the same; what would run is not."""
    post = Post()
    async with house() as place:
        run_id, (shown,) = await waiting(place, post)
        async with place.open(post.agent("2"), drift=WAIT_ALL) as runtime:
            await runtime.adopt(run_id, by="ops")
            now = await asked_again(place, runtime, run_id, 2)
            assert (now.action, now.arguments) == (shown.action, shown.arguments)
            assert now.digest != shown.digest
            run = runtime.run(run_id)
            before = await types(run)
            for edited in (None, {"to": "b"}):
                with pytest.raises(ApprovalError, match="is not the call that was shown: look at it again"):
                    await runtime.approve(shown.action, by="maria", digest=shown.digest, arguments=edited)
            elsewhere = Judgement("approve", Principal("maria"), digest=shown.digest)
            with pytest.raises(ApprovalError, match="is not the call that was shown"):
                await place.commands.decide(shown.action, elsewhere)
            assert await types(run) == before
            assert await runtime.approvals() == [now]
            assert post.sent == []
            await runtime.approve(now.action, by="maria", digest=now.digest)
            assert await answers(run) == ["sent to a"]
            # Repeated with what stood then it is no conflict.
            await runtime.approve(now.action, by="maria", digest=now.digest)
            assert len(await of(run, ApprovalDecided)) == 1


# ---- cancelling what has changed


@pytest.mark.parametrize("change", ["contract", "prose", "nothing"])
@pytest.mark.parametrize("policy", [ADOPT_ALL, WAIT_ALL], ids=["adopting", "waiting"])
@pytest.mark.parametrize("when", ["before the start", "after the start"])
async def test_cancelling_a_run_whose_agent_has_changed_adopts_nothing(
    change: str, policy: DriftPolicy, when: str
) -> None:
    post = Post()
    async with house() as place:
        run_id, _ = await waiting(place, post, 2)
        if when == "before the start":
            await place.commands.cancel(run_id, by=Principal("maria"), reason=None)
        agent = post.agent(
            "2" if change == "contract" else "1", count=2, instructions="Be terse." if change == "prose" else ""
        )
        async with place.open(agent, drift=policy) as runtime:
            run = runtime.run(run_id)
            if when != "before the start":
                await run.cancel(by="maria")
            with pytest.raises(RunCancelled):
                await run.wait()
            for kind in (DefinitionAdopted, ActionReplanned, ApprovalExpired, ActionStarted):
                assert await of(run, kind) == []
            assert len(await of(run, ApprovalRequested)) == 2
            told = [message.content for message in (await run.result()).messages if isinstance(message, ToolMessage)]
            assert told == ["Not started: the run was cancelled by maria."] * 2
        assert post.sent == []


async def test_a_run_that_waits_for_an_adoption_can_be_cancelled() -> None:
    post = Post()
    async with house() as place:
        run_id, (asked,) = await waiting(place, post)
        async with place.open(post.agent("2")) as runtime:
            await runtime.approve(asked.action, by="maria")
            await until(runtime, run_id, "drifted")
            before = await types(runtime.run(run_id))
            await runtime.cancel(run_id, by="maria")
            with pytest.raises(RunCancelled):
                await runtime.run(run_id).wait()
            after = await types(runtime.run(run_id))
            assert after == [*before, "run.cancel_requested", "action.receipted", "run.cancelled"]
        assert post.sent == []
