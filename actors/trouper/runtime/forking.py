"""Begins forks, and contains what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs

from trouper._ids import ulid
from trouper.core import events as ev
from trouper.core import wording
from trouper.core.approvals import NO_GROUNDS
from trouper.core.base import Base, HistoryRef
from trouper.core.conversation import AI, Message, Value
from trouper.core.digests import message_value
from trouper.core.effects import Effect
from trouper.core.evolve import evolve
from trouper.core.fork import Cut, EditArguments, EditMessage, Fork, WhatIf, calls_again, cut_history
from trouper.core.history import Piece
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.errors import ForkError, IdempotencyConflict
from trouper.runtime.histories import run_state
from trouper.runtime.receipts import Receipts
from trouper.runtime.submitting import Office, known
from trouper.runtime.tasks import SALT, Submission, check_command_id, messages_of
from trouper_journal import Domain, Key, Write, content_digest


async def begin_fork(
    office: Office, origin: str, what_if: WhatIf, by: ev.Principal | None, command_id: str | None
) -> Submission:
    """Begin a fork, or find the one that this command began before; see `Commands.fork`."""
    state = await run_state(office.journal, origin, what_if.at)
    if state.erased:
        raise ForkError(f"run {origin}: what it held was erased")
    pieces = await office.histories.pieces([HistoryRef(origin, state.version)], whole=True)
    history = [message for piece in pieces for message in piece.messages]
    cut = cut_history(origin, history, what_if, open_from=_open_reply(state, history))
    run = ulid(office.clock.now(), office.entropy)
    refs, copied = _by_reference(pieces, cut.kept)
    said = messages_of(run, what_if.say) if what_if.say else ()
    messages = (*copied, *_rest(run, cut), *said)
    if not refs and not messages:
        raise ForkError(f"run {origin}: nothing is left of it to start from")
    salt = office.entropy.token(SALT)
    event = ev.RunSubmitted(
        what_if.agent or state.agent,
        state.limits,
        messages,
        salt,
        by,
        Base(refs) if refs else None,
        dict(state.named) or None,
        grants=state.tools.grants,
        fork=Fork(origin, state.version, what_if.writes),
    )
    begun = evolve(RunState(run), event)
    write = Write(f"run/{run}", [event], expected=0, label=status(begun).label, domain=Domain(f"run/{run}", salt))
    if command_id is None:
        await office.journal.commit([write])
        return Submission(run, repeated=False, state=begun)
    check_command_id(command_id)
    name = f"submit:{command_id}"
    try:
        done = await office.journal.commit([write], key=Key(name, _digest(salt, origin, what_if)))
    except IdempotencyConflict:
        return await known(office.journal, name, lambda first: _digest(first, origin, what_if))
    first = done.records[0].stream.removeprefix("run/")
    return Submission(first, done.repeated, None if done.repeated else begun)


def _open_reply(state: RunState, history: Sequence[Message]) -> int | None:
    """Place of the reply whose calls are open."""
    if not state.batch and not state.unplanned:
        return None
    return max(place for place, message in enumerate(history) if isinstance(message, AI) and message.tool_calls)


def _by_reference(pieces: Sequence[Piece], kept: int) -> tuple[tuple[HistoryRef, ...], tuple[Message, ...]]:
    """The first messages of a history as references, and what of them must be copied behind those."""
    refs: list[HistoryRef] = []
    for piece in pieces:
        count = min(kept, len(piece.messages))
        if piece.lead:
            # A message of the runtime's own cannot be referred to.
            break
        if count:
            refs.append(HistoryRef(piece.ref.run, piece.ref.version, whole=False, skip=piece.ref.skip, take=count))
        kept -= count
        if not kept:
            return tuple(refs), ()
    covered = sum(ref.take or 0 for ref in refs)
    history = [message for piece in pieces for message in piece.messages]
    return tuple(refs), tuple(history[covered : covered + kept])


def _rest(run: str, cut: Cut) -> tuple[Message, ...]:
    if not cut.again:
        return cut.rest
    *before, reply = cut.rest
    assert isinstance(reply, AI)
    return (*before, calls_again(run, reply))


def _digest(salt: bytes, origin: str, what_if: WhatIf) -> bytes:
    """Keyed digest over what is asked; by it a repeated command is known."""
    said: Value = what_if.say if isinstance(what_if.say, str) else [message_value(each) for each in what_if.say]
    edits: list[Value] = []
    for edit in what_if.edits:
        match edit:
            case EditMessage(id, content):
                edits.append(["message", id, _plain(content)])
            case EditArguments(action, arguments):
                edits.append(["arguments", action, dict(arguments)])
            case _:
                edits.append(["receipt", edit.action, _plain(edit.content), edit.status])
    return content_digest(salt, ["fork", origin, what_if.at, edits, said, what_if.agent, what_if.writes])


def _plain(content: str | Sequence[object]) -> Value:
    return content if isinstance(content, str) else [dict(part) for part in content]  # type: ignore[call-overload]


async def contained(
    receipts: Receipts, state: RunState, planned: ev.ActionPlanned, *, delegated: bool
) -> tuple[object, ...]:
    """A fork's call as it may be made: answered by the record, as it is, or kept from having an effect.

    Args:
        receipts: What is on record.
        state: The fork.
        planned: The call.
        delegated: Whether it is one of a sub-agent, which is contained itself.
    """
    if state.forked is None or planned.gate not in ("free", "person") or not isinstance(planned.arguments, dict):
        return (planned,)
    fork, action = state.forked.of, planned.action
    if fork.run:
        found = await receipts.find(fork.run, planned.tool, planned.arguments, state.forked.used)
        if found is not None:
            answered = attrs.evolve(planned, gate="recorded", recorded=found.action)
            return (answered, attrs.evolve(found.event, action=action, attempt=0, evidence="recorded"))
    if delegated or planned.effect is Effect.READ_ONLY:
        return (planned,)
    if fork.writes == "simulate":
        return (attrs.evolve(planned, gate="simulated"), _simulated(action))
    return (_kept_back(fork, planned),)


def contained_anew(state: RunState, replanned: ev.ActionReplanned, *, delegated: bool) -> object:
    """The same for a call that was looked at anew, because its tool has changed: it does not get out by that.

    Args:
        state: The fork, or any other run.
        replanned: The call.
        delegated: Whether it is one of a sub-agent, which is contained itself.
    """
    reads = replanned.effect is Effect.READ_ONLY
    if state.forked is None or delegated or reads or replanned.gate == "refused":
        return replanned
    if state.forked.of.writes == "simulate":
        return _simulated(replanned.action)
    return _kept_back(state.forked.of, replanned)


def _simulated(action: str) -> ev.ActionReceipted:
    return ev.ActionReceipted(action, 0, "ok", "simulated", wording.FORK_SIMULATED)


_Planned = TypeVar("_Planned", ev.ActionPlanned, ev.ActionReplanned)


def _kept_back(fork: Fork, planned: _Planned) -> _Planned:
    """A new write, refused or asked for."""
    if fork.writes == "block":
        return attrs.evolve(planned, gate="refused", refusal=wording.FORK_BLOCKED)
    if planned.gate == "person":
        return planned
    # Whatever lets such calls run elsewhere, this one is to be asked for.
    return attrs.evolve(planned, gate="person", grounds=NO_GROUNDS, reason=None)
