"""A call of which nobody knows whether it took effect: what a named person can make of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.office import AnyTool, Office, World, asks, of, office, told, types, until

from trouper import Principal, ResolveError, Runtime, UnknownAction, tool
from trouper.core.commands import Verdict
from trouper.core.events import ActionReceipted, ActionResolved, ActionStarted
from trouper.testing._answers import Answer

VERDICTS: list[tuple[Verdict, str, bool]] = [
    ("applied", "Took effect, as maria found: seen in the bank's log.", True),
    ("not_applied", "Did not take effect, as maria found: seen in the bank's log.", False),
    ("abandon", "Given up by maria; it is unknown whether it took effect: seen in the bank's log.", False),
]


def transfers(world: World) -> list[AnyTool]:
    @tool
    async def transfer(amount: int) -> str:
        """Transfer money; the first time the connection breaks."""
        first = not world.effects
        world.do(f"transfer {amount}")
        if first:
            raise OSError("connection reset")
        return f"transferred {amount}"

    return [transfer]


TRANSFER = asks(("transfer", {"amount": 5}))


async def doubtful(desk: Office, runtime: Runtime) -> str:
    """A run with a call in doubt."""
    run = await runtime.submit("desk", "Transfer.")
    state = await until(runtime, run.id, "in_doubt")
    (doubt,) = state.in_doubt
    assert doubt.text == (
        "In doubt: it raised an unexpected error (OSError: connection reset), and it is unknown whether it took effect."
    )
    assert desk.world.effects == ["transfer 5"]
    assert len(desk.stub.requests) == 1
    return run.id


@pytest.mark.parametrize(("verdict", "text", "ok"), VERDICTS)
@pytest.mark.parametrize("restart", [False, True])
async def test_a_verdict_settles_it_and_the_model_is_told_whose_it_is(
    tmp_path: Path, verdict: Verdict, text: str, *, ok: bool, restart: bool
) -> None:
    async with office(tmp_path, [TRANSFER, "Well."], transfers) as desk:
        async with desk.open() as runtime:
            run_id = await doubtful(desk, runtime)
            before = await types(runtime.run(run_id))
        if restart:
            # A second and a third start leave the doubt as it is.
            for _ in range(2):
                async with desk.open() as runtime:
                    await until(runtime, run_id, "in_doubt")
                    assert await types(runtime.run(run_id)) == before
        async with desk.open() as runtime:
            run = runtime.run(run_id)
            evidence = "seen in the bank's log"
            action = await runtime.resolve(f"{run_id}/0.0", verdict, by="maria", evidence=evidence)
            assert (action.verdict, action.settled_by, action.evidence) == (verdict, Principal("maria"), evidence)
            assert (await run.wait()).output == "Well."
            (receipt,) = await of(run, ActionReceipted)
            assert (receipt.outcome, receipt.evidence) == ("ok" if ok else "error", "person")
            # Once more is no second verdict; another one is refused.
            await runtime.resolve(f"{run_id}/0.0", verdict, by="peter")
            for other in {"applied", "not_applied", "run_again", "abandon"} - {verdict}:
                with pytest.raises(ResolveError, match=f"settled as {verdict}; nothing was changed"):
                    await runtime.resolve(f"{run_id}/0.0", other, by="peter")  # type: ignore[arg-type]  # one of them
            assert len(await of(run, ActionResolved)) == 1
        assert told(desk.stub.requests[1].messages) == [text]
        assert desk.world.effects == ["transfer 5"]


async def test_a_person_can_have_it_run_again(tmp_path: Path) -> None:
    async with office(tmp_path, [TRANSFER, "Well."], transfers) as desk, desk.open() as runtime:
        run_id = await doubtful(desk, runtime)
        await runtime.resolve(f"{run_id}/0.0", "run_again", by="maria")
        run = runtime.run(run_id)
        await run.wait()
        assert told(desk.stub.requests[1].messages) == ["transferred 5"]
        assert desk.world.effects == ["transfer 5", "transfer 5"]
        assert [event.attempt for event in await of(run, ActionStarted)] == [1, 2]


async def test_what_is_not_in_doubt_cannot_be_resolved(tmp_path: Path) -> None:
    script: list[Answer] = [asks(("transfer", {"amount": 5}), ("send_email", {"to": "a"})), "Well."]

    def tools(world: World) -> list[AnyTool]:
        return [*transfers(world), world.mailer()]

    async with office(tmp_path, script, tools) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Go.")
        await until(runtime, run.id, "in_doubt")
        with pytest.raises(ResolveError, match="is not in doubt: it is awaiting"):
            await runtime.resolve(f"{run.id}/0.1", "applied", by="maria")
        with pytest.raises(UnknownAction):
            await runtime.resolve(f"{run.id}/0.2", "applied", by="maria")
        # Both kinds of waiting are shown, and each is settled by its own.
        (asked,) = await runtime.approvals()
        await runtime.deny(asked.action, by="maria")
        await runtime.resolve(f"{run.id}/0.0", "abandon", by="maria")
        await run.wait()
        with pytest.raises(ResolveError, match="is not in doubt"):
            await runtime.resolve(f"{run.id}/0.1", "applied", by="maria")
        assert desk.world.effects == ["transfer 5"]


async def test_an_approval_does_not_settle_a_doubt(tmp_path: Path) -> None:
    def tools(world: World) -> list[AnyTool]:
        @tool(requires_approval=True)
        async def transfer(amount: int) -> str:
            """Transfer."""
            world.do(f"transfer {amount}")
            raise OSError("connection reset")

        return [transfer]

    async with office(tmp_path, [TRANSFER, "Well."], tools) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "Transfer.")
        async with runtime.journal.news() as news:
            while not (asked := await runtime.approvals()):
                await news.wait()
        await runtime.approve(asked[0].action, by="maria")
        await until(runtime, run.id, "in_doubt")
        await runtime.approve(asked[0].action, by="maria")
        await until(runtime, run.id, "in_doubt")
        assert desk.world.effects == ["transfer 5"]
        await runtime.resolve(asked[0].action, "applied", by="maria")
        await run.wait()
        assert desk.world.effects == ["transfer 5"]
