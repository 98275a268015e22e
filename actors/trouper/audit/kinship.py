"""What a run and the run that called it say of each other: both stand in streams of their own, and must agree.

A child's id says who called it, and for which call; the caller's stream has that it began the child, and, written in
the commit that ends the child, how the child ended. Who makes up the one and forgets the other is found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from attrs import frozen

from trouper.core import events as ev
from trouper.core.child_wording import finished
from trouper.core.family import Parent, child_id, parent_of
from trouper.core.state import RunState
from trouper_journal import Archived, Erased, Journal, Record
from trouper_journal.archive import ArchiveStore, refuse_archived

Calls: TypeAlias = Mapping[str, "Calling"]
"""What a run's stream says of its children, by their ids."""


@frozen
class Calling:
    """What a run's stream says of a child: that it began, and, the first time, how it ended."""

    started: ev.ChildStarted
    finished: tuple[Record, ev.ChildFinished] | None = None


@frozen
class Discord:
    """What a run and its kin contradict each other in.

    Attributes:
        message: What it is.
        record: The record that is contradicted; None where one is missing.
        event: Its event.
    """

    message: str
    record: Record | None = None
    event: object | None = None


async def calls_of(journal: Journal, run: str) -> Calls:
    """What a run's stream says of its children.

    Raises:
        RecordArchived: The stream is in an archive that is not at hand.
        JournalError: It cannot be read.
    """
    await refuse_archived(journal, f"run/{run}")
    found: dict[str, Calling] = {}
    async for record in journal.read(f"run/{run}"):
        if not record.type.startswith("child.") or isinstance(record, Archived):
            continue
        match journal.registry.decode(record):
            case ev.ChildStarted() as event:
                found[event.run] = Calling(event)
            case ev.ChildFinished() as event:
                call = found.get(event.run)
                # A child that has ended may say so again; what it said first counts.
                if call is not None and call.finished is None:
                    found[event.run] = Calling(call.started, (record, event))
            case _:
                continue
    return found


async def lost_child(journal: Journal, run: str, record: Record, event: ev.ChildStarted) -> Discord | None:
    """What is wrong with a child that a run says to have begun.

    Raises:
        JournalError: The journal cannot be read.
    """
    said = f"version {record.version} begins the run {event.run}"
    if event.run != child_id(run, event.action):
        return Discord(f"{said}, which is not called after the call {event.action}", record, event)
    if isinstance(journal.store, ArchiveStore) or await journal.head(f"run/{event.run}") is not None:
        return None
    return Discord(f"{said}, which is not in the journal", record, event)


def discord(state: RunState, ending: RunState | None, calls: Calls) -> Discord | None:
    """What a run says otherwise than the run that its id names as its caller.

    Args:
        state: The run, folded.
        ending: The run when it had just ended, the first time; None where it has not.
        calls: What its caller's stream says of its children.
    """
    parent = state.family.parent
    if parent is None or child_id(parent.run, parent.action) != state.run:
        of = "nobody" if parent is None else f"the call {parent.action} of run {parent.run}"
        return Discord(f"it says that {of} began it, and is called after a call of run {parent_of(state.run)}")
    call = calls.get(state.run)
    if call is None:
        return Discord(f"no call of run {parent.run} began it, though it says so")
    if (call.started.action, call.started.agent) != (parent.action, state.agent):
        wanted = f"the call {call.started.action}, and the agent {call.started.agent}"
        return Discord(f"it is of the agent {state.agent}, for the call {parent.action}; its caller says, for {wanted}")
    if call.finished is None:
        return None if ending is None else Discord(f"it has ended, and run {parent.run} was never told")
    record, event = call.finished
    if ending is None:
        return Discord(f"run {parent.run} says that it {event.status}, and it has not ended", record, event)
    contradiction = next(_contradictions(ending, parent, event), None)
    return None if contradiction is None else Discord(contradiction, record, event)


def _contradictions(ending: RunState, parent: Parent, told: ev.ChildFinished) -> Iterator[str]:
    true = finished(ending, parent)
    pairs: list[tuple[str, object, object]] = [
        ("it ended", told.status, true.status),
        ("it failed by", told.kind, true.kind),
        ("it spent", told.spent, true.spent),
    ]
    # How a failure is put into words may change from release to release; an answer may not.
    if true.status == "succeeded" and ending.output and not ending.erased:
        pairs += [("its answer is", told.value, true.value)]
        pairs += [("its answer is", told.text, true.text)] if parent.returns == "answer" else []
    for what, said, is_so in pairs:
        if said != is_so and not isinstance(said, Erased):
            yield f"{what} {is_so!r}, and run {parent.run} was told {said!r}"
