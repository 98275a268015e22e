"""Makes what a run or a session holds unreadable for ever, once it is over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import define, field, frozen

from trouper.core.base import Base
from trouper.core.erasure_events import ErasureCarriedOut, ErasureOrdered
from trouper.core.events import RunSubmitted, TurnQueued
from trouper.core.family import root_of
from trouper.core.status import ENDED_IN_DOUBT
from trouper.core.terms import Principal
from trouper.errors import ErasureRefused, JournalCorrupt, UnknownEvent, UnknownRun, UnknownSession, VersionConflict
from trouper.runtime.sessions import stream_of
from trouper_journal import Archived, Journal, Plain, StreamHead

_ENDED: Final = frozenset({"succeeded", "failed", "cancelled"})


@frozen(slots=False, repr=False, eq=False)
class Erasure(Plain):
    """What an erasure came to.

    Attributes:
        domain: What was erased: ``run/<root>`` or ``session/<id>``.
        runs: Ids of its runs; of a session that was archived only with its archive at hand.
        keys: Names of the data keys that were destroyed; none where it had been erased before.
        records: How many records hold content that nobody can read any more.
        plain: How many records hold content in plain, written when sealing was off: it can still be read.
        archived: How many more records are in an archive, and not counted among these: what of them is sealed cannot
            be read any more either.
        copies: Runs elsewhere that start from what was erased, and may hold parts of it: forks, and runs that were
            given its history.
        unread: How many runs elsewhere could not be looked at, because they are in an archive that is not at hand, or
            damaged: they may be copies, too.
    """

    domain: str
    runs: tuple[str, ...]
    keys: tuple[str, ...]
    records: int
    plain: int
    archived: int
    copies: tuple[str, ...]
    unread: int


async def erase_run(journal: Journal, run: str, *, by: Principal, reason: str | None) -> Erasure:
    """Erase a run and all runs below it.

    Args:
        journal: The journal, opened with the keys that it was written with.
        run: Id of a root run that is in no session.
        by: Who wants it.
        reason: Why.

    Raises:
        UnknownRun: There is none of that id.
        ErasureRefused: It is part of more, is not over, or not sealed with keys at hand; nothing was changed.
        KeyStoreError: The keys could not be destroyed.
    """
    if await journal.head(f"run/{run}") is None:
        raise UnknownRun(f"there is no run {run} in this journal")
    first = await _submitted(journal, run)
    if root_of(run) != run:
        raise ErasureRefused(f"run {run}", f"it is below run {root_of(run)}: erase that one")
    if first is not None and first.turn is not None:
        raise ErasureRefused(f"run {run}", f"it is a turn of session {first.turn.session}: erase the session")
    return await _erase(journal, f"run/{run}", None, [run], by, reason)


async def erase_session(journal: Journal, session: str, *, by: Principal, reason: str | None) -> Erasure:
    """Erase a session with all of its runs, and all runs below them.

    Args:
        journal: The journal, opened with the keys that it was written with.
        session: Its id.
        by: Who wants it.
        reason: Why.

    Raises:
        UnknownSession: There is none of that id.
        ErasureRefused: One of its runs is not over, or it is not sealed with keys at hand; nothing was changed.
        KeyStoreError: The keys could not be destroyed.
    """
    stream = stream_of(session)
    return await _erase(journal, stream, stream, [], by, reason)


async def _erase(
    journal: Journal, domain: str, session: str | None, roots: list[str], by: Principal, reason: str | None
) -> Erasure:
    from trouper_journal.sealing import destroy_keys

    while True:
        found = await _look(journal, domain, session, roots)

        try:
            keys = await destroy_keys(
                journal,
                domain,
                ordered=partial(_ordered, domain, found, by, reason),
                carried_out=lambda names: ErasureCarriedOut(domain, tuple(names)),
                require=found.versions,
            )
        except VersionConflict:
            continue
        # Also where the domain has got another key since an earlier erasure was cut off.
        await _complete(journal, domain)
        return Erasure(
            domain,
            tuple(found.runs),
            tuple(keys),
            found.records,
            found.plain,
            found.archived,
            tuple(found.copies),
            found.unread,
        )


async def _complete(journal: Journal, domain: str) -> None:
    """Record that keys are destroyed whose erasure was cut off just before that was recorded."""
    from trouper_journal.sealing import ERASURES

    assert journal.keys is not None
    gone = {entry.id for entry in await journal.keys.entries(journal.id, domain) if entry.state == "destroyed"}
    untold: list[str] = []
    async for record in journal.read(ERASURES):
        event = journal.registry.decode(record)
        if isinstance(event, ErasureOrdered) and event.domain == domain:
            untold += [key for key in event.keys if key in gone and key not in untold]
        elif isinstance(event, ErasureCarriedOut) and event.domain == domain:
            untold = [key for key in untold if key not in event.keys]
    if untold:
        await journal.append(ERASURES, [ErasureCarriedOut(domain, tuple(untold))])


def _ordered(domain: str, found: _Found, by: Principal, reason: str | None, names: Sequence[str]) -> ErasureOrdered:
    return ErasureOrdered(domain, tuple(names), len(found.runs), found.records, found.plain, by, reason)


@define(eq=False, repr=False)
class _Found:
    """What an erasure would come to.

    Attributes:
        runs: Ids of the runs.
        versions: Versions of all streams concerned.
    """

    runs: list[str] = field(factory=list)
    versions: dict[str, int] = field(factory=dict)
    records: int = 0
    plain: int = 0
    archived: int = 0
    copies: list[str] = field(factory=list)
    unread: int = 0


async def _look(journal: Journal, domain: str, session: str | None, roots: list[str]) -> _Found:
    """Everything that an erasure concerns, refused where it must not be.

    Raises:
        ErasureRefused: It must not be.
    """
    found = _Found()
    subject = domain.replace("/", " ", 1)
    if session is not None:
        await _count(journal, session, found)
        if not found.versions[session]:
            raise UnknownSession(f"there is no {subject} in this journal")
        roots = await _turns(journal, session)
    for root in roots:
        for head in await _tree(journal, root):
            label = head.label or "?"
            run = head.stream.removeprefix("run/")
            if label.partition("-")[0] not in _ENDED:
                raise ErasureRefused(subject, f"run {run} is not over: it is {label}")
            if label.endswith(ENDED_IN_DOUBT):
                raise ErasureRefused(subject, f"run {run} has a call in doubt: settle it with `trouper resolve` first")
            found.runs.append(run)
            await _count(journal, head.stream, found)
            # What the label said, it said of this version.
            found.versions[head.stream] = head.version
    # What was archived cannot be looked at here; it is sealed with the same keys.
    if journal.keys is None or not await journal.keys.entries(journal.id, domain):
        raise ErasureRefused(subject, _why_no_key(found, given=journal.keys is not None))
    await _find_copies(journal, found, subject)
    return found


def _why_no_key(found: _Found, *, given: bool) -> str:
    if found.records or found.archived:
        why = "the keys at hand know nothing of it" if given else "the journal was opened without keys"
        sealed = "it is sealed" if found.records else "what is archived of it may be sealed"
        return f"{sealed}, and {why}: give those that it was written with"
    why = "it was written without keys, and is stored in plain" if found.plain else "it holds nothing"
    return f"its content was never sealed: {why}"


async def _tree(journal: Journal, root: str) -> list[StreamHead]:
    own = await journal.head(f"run/{root}")
    below = [head async for head in journal.streams(prefix=f"run/{root}~")]
    return below if own is None else [own, *below]


async def _turns(journal: Journal, session: str) -> list[str]:
    # What was archived is over: a lost archive must not keep what is in its copies from being erased.
    records = [record async for record in journal.read(session) if not isinstance(record, Archived)]
    events = [journal.registry.decode(record) for record in records]
    return [each.run for each in events if isinstance(each, TurnQueued)]


async def _count(journal: Journal, stream: str, found: _Found) -> None:
    """Count a stream's records by how their content is stored; how far it was read."""
    found.versions[stream] = 0
    async for record in journal.read(stream):
        found.versions[stream] = record.version
        found.records += record.key_id is not None
        found.plain += record.key_id is None and bool(record.content)
        found.archived += isinstance(record, Archived)


async def _find_copies(journal: Journal, found: _Found, subject: str) -> None:
    """Find the runs elsewhere that start from what is erased; one that is not over still needs it.

    Raises:
        ErasureRefused: There is one that is not over.
    """
    runs = set(found.runs)
    async for head in journal.streams(prefix="run/"):
        run = head.stream.removeprefix("run/")
        if run in runs:
            continue
        first = await _submitted(journal, run)
        found.unread += first is None
        if first is None or not _starts_from(first, runs):
            continue
        if (head.label or "?").partition("-")[0] not in _ENDED:
            raise ErasureRefused(subject, f"run {run}, which starts from it, is not over: it is {head.label}")
        found.copies.append(run)


def _starts_from(first: RunSubmitted, runs: set[str]) -> bool:
    base: Base | None = first.base
    named = {ref.run for ref in base.refs} if base is not None else set()
    return bool(named & runs) or (first.fork is not None and first.fork.run in runs)


async def _submitted(journal: Journal, run: str) -> RunSubmitted | None:
    """How a run began; None where there is none, or it cannot be read here."""
    for record in await journal.read_page(f"run/{run}", limit=1):
        try:
            event = journal.registry.decode(record)
        except (UnknownEvent, JournalCorrupt):
            return None
        return event if isinstance(event, RunSubmitted) else None
    return None
