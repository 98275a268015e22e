"""Commands of people: ``approve``, ``deny``, ``resolve``, ``cancel``, ``resume``.

They append to the journal beside whoever drives it; a running daemon notices at once, any other at its next start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypedDict, Unpack, cast, get_args

import click

from trouper.approvals import Scope
from trouper.cli.changing import AS, REASON, change_run, say_when
from trouper.cli.codes import ConflictError, Exit
from trouper.cli.command import command, run_async
from trouper.cli.journals import call_id, driven, find_action, json_arguments, opened, person
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.cli.rules import Remembering, remembering, scope_of
from trouper.core.action import Decision
from trouper.core.approvals import Vote
from trouper.core.commands import Judgement, Verdict
from trouper.core.evolve_budget import LIMIT_FAILURES
from trouper.core.raising import limit_of
from trouper.core.state import Action, RunPhase, RunState
from trouper.core.status import status
from trouper.narration.plain import action_json
from trouper.narration.text import action_text, claim, clean, count, quoted, who
from trouper.runtime import Commands


class Said(TypedDict):
    """Options of ``trouper approve`` and ``trouper deny``."""

    name: str | None
    reason: str | None
    digest: str | None


class Approving(Said, Remembering):
    """Options of ``trouper approve``."""


_DIGEST = click.option(
    "--digest", metavar="HEX", help="Decide only if the call is still the one shown with this digest (8 digits do)."
)


@command
@JOURNAL
@click.argument("action", callback=call_id)
@AS
@REASON
@_DIGEST
@click.option("--arguments", metavar="JSON", help="Run with these arguments instead of the model's: a JSON object.")
@remembering
def approve(output: Output, /, journal: Path, action: str, *, arguments: str | None, **said: Unpack[Approving]) -> Exit:
    """Let a call run. ACTION is its id, as `show` and `approvals` print it.

    Where several must approve, this is your vote, and the call runs when enough different people have approved it.
    """
    edited = None if arguments is None else json_arguments("--arguments", arguments)
    judgement = Judgement("approve", person(said["name"]), said["reason"], edited, said["digest"])
    return _decide(output, journal, action, judgement, scope_of(said))


@command
@JOURNAL
@click.argument("action", callback=call_id)
@AS
@REASON
@_DIGEST
def deny(output: Output, /, journal: Path, action: str, **said: Unpack[Said]) -> Exit:
    """Refuse a call; the model is told, with the reason."""
    judgement = Judgement("deny", person(said["name"]), said["reason"], digest=said["digest"])
    return _decide(output, journal, action, judgement)


def _decide(output: Output, journal: Path, action: str, judgement: Judgement, remember: Scope | None = None) -> Exit:
    async def decide(commands: Commands, name: str) -> Action:
        return await commands.decide(name, judgement, remember=remember)

    def tell(found: Action) -> str:
        if found.decision is None:
            quorum, votes = found.consent.asking.quorum, [_vote_text(vote) for vote in found.consent.votes]
            return f"approved by {' and '.join(votes)}; it waits for {quorum - len(votes)} more of {quorum}"
        decision = found.decision
        by = decision.by
        verb = "approved" if judgement.decision == "approve" else "denied"
        if by is None or judgement.by is None or by.id != judgement.by.id:
            # The first decision stands, whoever repeats it.
            verb = f"was {verb} before"
        return f"{verb} by {_vote_text(decision)}"

    return _settle(output, journal, action, decide, tell)


def _vote_text(vote: Vote | Decision) -> str:
    """Who gave it, and why, as it was recorded: a person's first vote stands, whatever they repeat it with."""
    why = f": {quoted(vote.reason)}" if vote.reason else ""
    return f"{who(vote.by)} {claim(vote.by)}{why}"


@command
@JOURNAL
@click.argument("action", callback=call_id)
@click.argument("verdict", type=click.Choice(get_args(Verdict)))
@AS
@click.option("--evidence", "--reason", help="What you found, and where you looked; it is recorded.")
def resolve(
    output: Output, /, journal: Path, action: str, verdict: str, *, name: str | None, evidence: str | None
) -> Exit:
    """Settle a call of which nobody knows whether it took effect."""
    chosen = cast("Verdict", verdict)  # click.Choice has checked it

    async def settle(commands: Commands, name_of_action: str) -> Action:
        return await commands.resolve(name_of_action, chosen, by=person(name), evidence=evidence)

    def tell(found: Action) -> str:
        why = f": {quoted(found.evidence)}" if found.evidence else ""
        return f"settled as {found.verdict} by {who(found.settled_by)} {claim(found.settled_by)}{why}"

    return _settle(output, journal, action, settle, tell)


def _settle(
    output: Output,
    journal: Path,
    action: str,
    change: Callable[[Commands, str], Awaitable[Action]],
    tell: Callable[[Action], str],
) -> Exit:
    async def main() -> Exit:
        async with opened(journal) as opened_journal:
            commands = Commands(opened_journal)
            name = await find_action(opened_journal, action)
            found = await change(commands, name)
            state = await commands.state(name.rpartition("/")[0])
            if output.as_json:
                output.json({**action_json(state, found), "driven": driven(journal)})
            else:
                output.result(styled(f"{clean(name)} {action_text(found)}"), styled(tell(found), "green"))
                say_when(output, journal, state)
        return Exit.OK

    return run_async(main)


@command
@JOURNAL
@click.argument("run_id", metavar="RUN")
@AS
@REASON
def cancel(output: Output, /, journal: Path, run_id: str, *, name: str | None, reason: str | None) -> Exit:
    """Ask for a run's end. What is under way comes to a known end first; what cannot stays in doubt."""
    reached = 0

    async def change(commands: Commands, found: str) -> RunState:
        nonlocal reached
        reached = sum(not child.ended for child in await commands.children(found))
        state = await commands.cancel(found, by=person(name), reason=reason)
        if state.ended and state.phase is not RunPhase.CANCELLED:
            raise ConflictError(f"run {found} is over: it has {state.phase.value} already; nothing was changed")
        return state

    def tell(state: RunState) -> str:
        by = state.cancel.by if state.cancel else None
        why = f": {quoted(state.cancel.reason)}" if state.cancel and state.cancel.reason else ""
        done = "is cancelled" if state.ended else "ends as soon as what is under way has come to a known end"
        with_it = f", and with it {count(reached, 'run')} of sub-agents" if reached and not state.ended else ""
        return f"cancelled by {who(by)} {claim(by)}{why}; it {done}{with_it}"

    return change_run(output, journal, run_id, change, tell)


@command
@JOURNAL
@click.argument("run_id", metavar="RUN")
@AS
@REASON
def resume(output: Output, /, journal: Path, run_id: str, *, name: str | None, reason: str | None) -> Exit:
    """Let a run go on that is paused or failed.

    Failed, that is, over its model's replies: there was no answer, or a refusal, or its answers were cut off or not
    accepted again and again.
    A run in any other state is left as it is, with exit code 4.
    """

    async def change(commands: Commands, found: str) -> RunState:
        before = await commands.state(found)
        if not before.ended and before.control.pause is None:
            label = status(before).label
            raise ConflictError(f"run {found} is neither paused nor failed: it is {label}; nothing was recorded")
        if before.ended and before.phase is not RunPhase.FAILED:
            raise ConflictError(f"run {found} is over: it has {before.phase.value}; it cannot be resumed")
        if before.failure == "deadline":
            raise ConflictError(f"run {found} is past its deadline: `trouper extend` lets it go on")
        if before.failure in LIMIT_FAILURES:
            raise ConflictError(f"run {found} is at its {limit_of(before)}: `trouper raise-limit` lets it go on")
        return await commands.resume(found, by=person(name), reason=reason)

    def tell(state: RunState) -> str:
        return f"goes on; it has taken {count(state.steps, 'step')}"

    return change_run(output, journal, run_id, change, tell)
