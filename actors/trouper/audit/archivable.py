"""What of a journal may be archived: what is over, leaves nobody in doubt, and is nothing that others start from.

What leaves together is a *unit*: a run with all runs below it, or a session with all of its turns and those below them.
A unit must stay as long as one of its runs has not ended, or has a call of which nobody knows whether it took effect;
and as long as a run that stays starts from it, as a fork does: its conversation could not be told without it.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen

from trouper.core import events as ev
from trouper.core.family import root_of
from trouper.errors import UnknownEvent, UnknownRun, UnknownSession
from trouper_journal import Archived, Journal, Plain, StreamHead
from trouper_journal.archive import refuse_archived

_ENDED = frozenset({"succeeded", "failed", "cancelled"})


@frozen(slots=False, repr=False, eq=False)
class Selection(Plain):
    """What is to be archived.

    Attributes:
        runs: Ids of runs, each with all that is below it.
        sessions: Ids of sessions, each with all of its turns.
        before: All units whose last record is older than this (ns UTC); None for none but those that are named.
        streams: All units to which one of these streams belongs, as far as they are here.
    """

    runs: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    before: int | None = None
    streams: frozenset[str] = frozenset()


@frozen(slots=False, repr=False, eq=False)
class Refused(Plain):
    """What must stay.

    Attributes:
        name: Stream of the unit: of its session, or of its root run.
        reason: Why.
        named: Whether it was selected by name.
    """

    name: str
    reason: str
    named: bool = False


@frozen(slots=False, repr=False, eq=False)
class Choice(Plain):
    """What may leave, and what may not.

    Attributes:
        position: The journal's last position when this was found out.
        units: Streams of each unit that may leave, in order of creation.
        refused: What was selected and must stay. Of what ``before`` selects, those that are not over are not selected.
        latest: When the last record of the units was made (ns UTC); 0 where there are none.
    """

    position: int
    units: tuple[tuple[str, ...], ...]
    refused: tuple[Refused, ...]
    latest: int = 0

    @property
    def streams(self) -> frozenset[str]:
        """All streams that may leave."""
        return frozenset(name for unit in self.units for name in unit)


@define(eq=False)
class _Unit:
    name: str
    streams: list[str] = field(factory=list)
    refs: dict[str, str] = field(factory=dict)
    """Runs that its runs start from, each with the first that does."""
    open: str | None = None
    doubt: str | None = None
    latest: int = 0
    selected: bool = False
    named: bool = False
    refusal: str | None = None

    @property
    def blocked(self) -> str | None:
        return self.refusal or self.open or self.doubt


async def choose(journal: Journal, selection: Selection) -> Choice:
    """Find out what may be archived. Reads the first and the last record of each run that is in the journal.

    Raises:
        UnknownRun, UnknownSession: What is named is not there.
        RecordArchived: It was archived already.
        StorageBusy, JournalCorrupt, JournalBroken: The storage cannot be read.
    """
    position = await journal.position()
    found = _Units(journal.past_damage(None))
    await found.read()
    named = (*(f"run/{run}" for run in selection.runs), *(f"session/{session}" for session in selection.sessions))
    await refuse_archived(journal, *named)
    found.select(selection)
    found.hold_what_others_start_from()
    units = [unit for unit in found.units.values() if unit.selected and unit.blocked is None]
    refused = tuple(
        Refused(unit.name, unit.blocked, unit.named)
        for unit in found.units.values()
        if unit.selected and unit.blocked is not None
    )
    latest = max((unit.latest for unit in units), default=0)
    return Choice(position, tuple(tuple(unit.streams) for unit in units), refused, latest)


class _Units:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.units: dict[str, _Unit] = {}
        self._unit_of_run: dict[str, str] = {}

    async def read(self) -> None:
        """Read what each run and session is, as far as it is here."""
        async for head in self._journal.streams(prefix="session/"):
            await self._add(head, head.stream)
        async for head in self._journal.streams(prefix="run/"):
            await self._read_run(head)

    async def _read_run(self, head: StreamHead) -> None:
        run = head.stream.removeprefix("run/")
        root = root_of(run)
        page = await self._journal.read_page(head.stream, limit=1)
        if not page or isinstance(page[0], Archived):
            return
        try:
            event = self._journal.registry.decode(page[0])
        except UnknownEvent:
            event = None
        if run == root:
            session = event.turn.session if isinstance(event, ev.RunSubmitted) and event.turn is not None else None
            self._unit_of_run[run] = f"run/{run}" if session is None else f"session/{session}"
        unit = await self._add(head, self._unit_of_run.get(root, f"run/{root}"))
        label = head.label or "?"
        if label not in _ENDED:
            how, _, doubt = label.partition("-")
            if how in _ENDED and doubt:
                unit.doubt = unit.doubt or f"run {run} has a call in doubt: settle it first (trouper resolve)"
            else:
                unit.open = unit.open or f"run {run} is not over ({label})"
        if not isinstance(event, ev.RunSubmitted):
            unit.open = unit.open or f"run {run} was submitted by another release, which this one cannot read"
            return
        refs = [ref.run for ref in event.base.refs] if event.base is not None else []
        if event.fork is not None and event.fork.run:
            refs.append(event.fork.run)
        for ref in refs:
            unit.refs.setdefault(ref, run)

    async def _add(self, head: StreamHead, name: str) -> _Unit:
        last = (await self._journal.read_page(head.stream, after=head.version - 1, limit=1))[0]
        if isinstance(last, Archived):
            return _Unit(name)
        unit = self.units.setdefault(name, _Unit(name))
        unit.streams.append(head.stream)
        unit.latest = max(unit.latest, last.recorded_at)
        return unit

    def select(self, selection: Selection) -> None:
        """Mark what is selected."""
        for run in selection.runs:
            name = self._unit_of_run.get(root_of(run))
            if name is None:
                raise UnknownRun(f"there is no run {run} in this journal")
            unit = self.units[name]
            unit.selected = unit.named = True
            if root_of(run) != run:
                unit.refusal = f"run {run} is part of run {root_of(run)}: name that, which leaves with all below it"
            elif name.startswith("session/"):
                session = name.removeprefix("session/")
                if session not in selection.sessions:
                    unit.refusal = f"run {run} is a turn of session {session}: name that, which leaves as a whole"
        for session in selection.sessions:
            if f"session/{session}" not in self.units:
                raise UnknownSession(f"there is no session {session} in this journal")
            unit = self.units[f"session/{session}"]
            unit.selected = unit.named = True
        for unit in self.units.values():
            if selection.before is not None and unit.latest < selection.before and unit.open is None:
                unit.selected = True
            if not selection.streams.isdisjoint(unit.streams):
                unit.selected = True

    def hold_what_others_start_from(self) -> None:
        """Refuse what a run that stays starts from, until nothing changes any more."""
        changed = True
        while changed:
            changed = False
            for unit in self.units.values():
                if unit.selected and unit.blocked is None:
                    continue
                changed = self._hold(unit.refs, unit.name) or changed

    def _hold(self, refs: Mapping[str, str], name: str) -> bool:
        changed = False
        for ref, run in refs.items():
            other = self.units.get(self._unit_of_run.get(root_of(ref), ""))
            if other is not None and other.name != name and other.selected and other.blocked is None:
                other.refusal = f"run {run} starts from run {ref}, and stays: archive both, or neither"
                changed = True
        return changed
