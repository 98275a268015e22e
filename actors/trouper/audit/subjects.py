"""What an export is about: the whole journal, or one run or session with all that belongs to it."""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Literal

from attrs import frozen

from trouper.core.base import HistoryRef
from trouper.core.definition import stream_of
from trouper.core.rule_events import APPROVALS
from trouper.errors import UnknownRun, UnknownSession
from trouper_journal import Damaged, Journal, JournalCorrupt, Plain, Record, Value, unpack_map


@frozen(slots=False, repr=False, eq=False)
class Subject(Plain):
    """A run or a session, with what belongs to it.

    To a run belong the runs of its sub-agents at any depth, the definition documents that they followed, the earlier
    runs whose conversations they began from, up to the version at which they did, and, where a standing rule stood in
    for a person, the records of that rule, which say who made it. To a session belong its own stream and all that
    belongs to its turns.

    Attributes:
        kind: Which of the two.
        name: Id of the run or the session.
    """

    kind: Literal["run", "session"]
    name: str

    @property
    def stream(self) -> str:
        """The stream that the subject is known by."""
        return f"{self.kind}/{self.name}"


async def runs_of(journal: Journal, subject: Subject) -> list[str]:
    """Ids of the runs that belong to a subject, each before those below it; turns of a session in their order.

    Raises:
        UnknownRun, UnknownSession: The journal has no such subject.
    """
    if await journal.head(subject.stream) is None:
        if subject.kind == "run":
            raise UnknownRun(f"there is no run {subject.name} in this journal")
        raise UnknownSession(f"there is no session {subject.name} in this journal")
    of_run = subject.kind == "run"
    roots = [subject.name] if of_run else [run async for run in _turns(journal, subject.stream)]
    found: list[str] = []
    for root in roots:
        if await journal.head(f"run/{root}") is not None:
            found.append(root)
        found += [head.stream.removeprefix("run/") async for head in journal.streams(prefix=f"run/{root}~")]
    return found


@frozen(slots=False, repr=False, eq=False)
class Belongings(Plain):
    """What belongs to a subject.

    Attributes:
        streams: Names of streams, each with the last version that belongs to it; None where all of it does.
        rules: Ids of the standing rules that stood in for people; of the stream of rules only their records belong.
    """

    streams: Mapping[str, int | None]
    rules: frozenset[str]


async def belongings(journal: Journal, subject: Subject) -> Belongings:
    """What belongs to a subject.

    Raises:
        UnknownRun, UnknownSession: The journal has no such subject.
    """
    runs = await runs_of(journal, subject)
    streams: dict[str, int | None] = {subject.stream: None} if subject.kind == "session" else {}
    streams |= dict.fromkeys((f"run/{run}" for run in runs), None)
    definitions: dict[str, None] = {}
    rules: set[str] = set()
    bases: list[HistoryRef] = []
    for run in runs:
        async for record in journal.read(f"run/{run}"):
            facts = _facts(record)
            definitions.update(dict.fromkeys(_definition_in(record.type, facts)))
            rules.update(_rules_in(facts))
            bases += _bases_in(record.type, facts)
    earlier = await _earlier(journal, bases, frozenset(runs))
    streams |= {stream: None for stream in definitions if await journal.head(stream) is not None}
    return Belongings({**earlier, **streams}, frozenset(rules))


async def _earlier(journal: Journal, bases: list[HistoryRef], runs: frozenset[str]) -> dict[str, int | None]:
    """The streams of the runs that others began from, up to where they did."""
    found: dict[str, int] = {}
    followed: set[str] = set(runs)
    while bases:
        ref = bases.pop()
        stream = f"run/{ref.run}"
        if ref.run not in runs and await journal.head(stream) is not None:
            found[stream] = max(ref.version, found.get(stream, 0))
        if ref.whole and ref.run not in followed:
            followed.add(ref.run)
            async for record in journal.read(stream):
                bases += _bases_in(record.type, _facts(record))
                if record.type == "run.started":
                    break
    return dict(found)


async def records_of(journal: Journal, streams: Mapping[str, int | None]) -> AsyncGenerator[Record, None]:
    """The records of some streams, each up to the version named with it, in the order of their positions.

    Streams are read from the moment on when their first record is due, and page by page, so that memory holds no
    more than the pages of those that run beside each other.
    """
    due: list[tuple[int, str]] = []
    for stream in streams:
        due += [(record.position, stream) for record in await journal.read_page(stream, after=0, limit=1)]
    due.sort(reverse=True)
    heap: list[tuple[int, str, Record, AsyncIterator[Record]]] = []
    while due or heap:
        while due and (not heap or due[-1][0] < heap[0][0]):
            _, stream = due.pop()
            await _push(heap, journal.read(stream), streams)
        *_, record, rest = heapq.heappop(heap)
        yield record
        await _push(heap, rest, streams)


async def all_records(journal: Journal, subject: Subject | None, after: int = 0) -> AsyncGenerator[Record, None]:
    """The records of a subject, or of the whole journal, with positions above ``after``, in order."""
    if subject is None:
        async for record in journal.read_all(after=after):
            yield record
        return
    belonging = await belongings(journal, subject)
    streams = {**belonging.streams, **({APPROVALS: None} if belonging.rules else {})}
    async with aclosing(records_of(journal, streams)) as records:
        async for record in records:
            if isinstance(record, Damaged):
                yield record  # which may have been any
                continue
            if record.position <= after:
                continue
            if record.stream != APPROVALS or _facts(record).get("rule") in belonging.rules:
                yield record


async def _push(
    heap: list[tuple[int, str, Record, AsyncIterator[Record]]],
    records: AsyncIterator[Record],
    streams: Mapping[str, int | None],
) -> None:
    try:
        record = await anext(records)
    except StopAsyncIteration:
        return
    last = streams[record.stream]
    if last is not None and record.version > last and not isinstance(record, Damaged):
        return
    # By stream, too: places where records are missing may have one position in several streams.
    heapq.heappush(heap, (record.position, record.stream, record, records))


async def _turns(journal: Journal, stream: str) -> AsyncIterator[str]:
    async for record in journal.read(stream):
        run = _facts(record).get("run")
        if record.type == "turn.queued" and isinstance(run, str):
            yield run


def _definition_in(type: str, facts: Mapping[str, Value]) -> Iterator[str]:
    """The stream of the definition that a run's record pins."""
    digest = facts.get("definition")
    if type in {"run.started", "definition.adopted"} and isinstance(digest, str):
        yield stream_of(digest)


def _bases_in(type: str, facts: Mapping[str, Value]) -> Iterator[HistoryRef]:
    """The stretches of other runs that a run's record says it begins from."""
    base = facts.get("base") if type in {"run.submitted", "run.started"} else None
    refs = base.get("refs") if isinstance(base, dict) else None
    for ref in refs if isinstance(refs, list) else ():
        run, version = (ref.get("run"), ref.get("version")) if isinstance(ref, dict) else (None, None)
        if isinstance(run, str) and isinstance(version, int):
            yield HistoryRef(run, version, whole=ref.get("whole") is not False)


def _rules_in(facts: Mapping[str, Value]) -> Iterator[str]:
    """The standing rules that a run's record names."""
    grounds = facts.get("grounds")
    rules = grounds.get("rules") if isinstance(grounds, dict) else None
    for rule in rules if isinstance(rules, list) else ():
        if isinstance(rule, str):
            yield rule


def _facts(record: Record) -> dict[str, Value]:
    try:
        return unpack_map(record.facts)
    except (JournalCorrupt, TypeError):
        return {}
