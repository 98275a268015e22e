"""Histories that runs start from: read from the journal when they are needed, and kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import attrs
from attrs import define, field

from trouper.core.base import Base, HistoryRef, base_chain
from trouper.core.conversation import Message
from trouper.core.digests import extend_chain
from trouper.core.evolve_session import lead_of
from trouper.core.history import Piece, Segment, ref_digest, segment_of, stretch
from trouper.core.made_up import folded
from trouper.core.state import RunState
from trouper.errors import ContentWithheld, JournalCorrupt, UnknownRun
from trouper_journal import Journal, Printable

_PAGE = 500
# A journal that somebody made up could name histories in a circle.
_LONGEST = 100_000


async def run_state(journal: Journal, run: str, version: int | None = None) -> RunState:
    """Fold a run, as it stands or as it stood at a version.

    Raises:
        UnknownRun: The journal has no such run, or it has not come to that version.
        UnknownEvent: It was written by a newer release.
        JournalCorrupt: It is damaged, or no runtime has written it.
    """
    state = RunState(run)
    while version is None or state.version < version:
        limit = _PAGE if version is None else min(_PAGE, version - state.version)
        page = await journal.read_page(f"run/{run}", after=state.version, limit=limit)
        for record in page:
            state = folded(state, record, journal.registry.decode(record))
        if len(page) < limit:
            break
    if state.version == 0:
        raise UnknownRun(f"there is no run {run} in this journal")
    if version is not None and state.version < version:
        raise UnknownRun(f"run {run} has {state.version} events, not {version}")
    return state


@define(eq=False, repr=False)
class Histories(Printable):
    """Reads what runs start from. What a reference names never changes, so that it is read once and kept.

    Attributes:
        journal: The journal.
        room: How many messages are kept at most.
    """

    journal: Journal
    room: int = 50_000
    _kept: OrderedDict[tuple[str, int], Segment] = field(factory=OrderedDict, init=False)
    _messages: int = field(default=0, init=False)
    _keys: object = field(default=None, init=False)

    async def segment(self, run: str, version: int) -> Segment:
        """A run's own part of a history.

        Raises:
            UnknownRun: The journal has no such run, or it has not come to that version.
            UnknownEvent: It was written by a newer release.
        """
        keys = self.journal.keys
        if keys is not None and (stamp := keys.stamp()) != self._keys:
            # Some of it may have been erased.
            self._kept.clear()
            self._messages, self._keys = 0, stamp
        known = self._kept.get((run, version))
        if known is not None:
            self._kept.move_to_end((run, version))
            return known
        segment = segment_of(await run_state(self.journal, run, version))
        self._keep(segment)
        return segment

    async def pieces(self, refs: Sequence[HistoryRef], *, whole: bool = False) -> list[Piece]:
        """What references come to, run by run, in order.

        Args:
            refs: The references.
            whole: Refuse to leave anything out that cannot be read.

        Raises:
            ContentWithheld: Some of it is sealed and cannot be read, or was erased, where the whole is wanted.
        """
        found: list[Piece] = []
        pending: list[HistoryRef | Piece] = list(refs)
        while pending:
            ref = pending.pop()
            if isinstance(ref, Piece):
                found.append(ref)
                continue
            segment = await self.segment(ref.run, ref.version)
            if whole and segment.erased:
                raise ContentWithheld(f"the history of run {ref.run}", "it is sealed or was erased")
            found.append(Piece(ref, stretch(segment, ref), erased=segment.erased))
            if ref.whole and segment.lead is not None:
                pending.append(Piece(ref, (segment.lead,), lead=True, erased=segment.erased))
            if ref.whole and segment.base is not None:
                pending += segment.base.refs
            if len(found) > _LONGEST:
                raise JournalCorrupt(f"the history of run {refs[-1].run} has no beginning")
        found.reverse()
        return found

    async def messages(self, base: Base | None, *, whole: bool = False) -> tuple[Message, ...]:
        """The messages of a base, in order; see `pieces`."""
        if base is None:
            return ()
        pieces = await self.pieces(base.refs, whole=whole)
        return tuple(message for piece in pieces for message in piece.messages)

    async def before(self, state: RunState, *, whole: bool = False) -> tuple[Message, ...]:
        """All that comes before a run's own messages: what was put in the place of dropped ones, then its base."""
        lead = lead_of(state)
        messages = await self.messages(state.base, whole=whole)
        return messages if lead is None else (lead, *messages)

    async def pin(self, base: Base, lead: Message | None = None, salt: bytes = b"") -> Base:
        """Look a base's stretches up, and pin what they hold.

        Args:
            base: What was asked for.
            lead: A message that comes before it.
            salt: Salt of the run that has the lead.

        Raises:
            UnknownRun: A stretch does not exist.
            JournalCorrupt: A stretch is not what it was when its reference was made.
        """
        refs: list[HistoryRef] = []
        for ref in base.refs:
            segment = await self.segment(ref.run, ref.version)
            digest = ref_digest(segment, ref)
            if ref.digest not in (b"", digest) and not segment.erased:
                raise JournalCorrupt(f"the history of run {ref.run} up to version {ref.version} is not what it was")
            refs.append(attrs.evolve(ref, digest=digest))
        chain = b"" if lead is None else extend_chain(b"", salt, lead)
        count = sum(len(piece.messages) for piece in await self.pieces(base.refs))
        return Base(tuple(refs), base_chain(chain, refs), count)

    async def difference(self, state: RunState) -> str | None:
        """What a run's history is not any more, in words; None where it is what was pinned, or cannot be told."""
        base, lead = state.base, lead_of(state)
        if base is None or not base.pinned or state.erased or not state.salt:
            return None
        for ref in base.refs:
            try:
                segment = await self.segment(ref.run, ref.version)
            except UnknownRun as error:
                return f"it starts from what is not there: {error}"
            if segment.erased:
                return None
            if ref_digest(segment, ref) != ref.digest:
                return f"what run {ref.run} held up to version {ref.version} is not what it started from"
        chain = b"" if lead is None else extend_chain(b"", state.salt, lead)
        return None if base_chain(chain, base.refs) == base.chain else "the digest of what it started from differs"

    def _keep(self, segment: Segment) -> None:
        self._kept[segment.run, segment.version] = segment
        self._messages += _weight(segment)
        for key in list(self._oldest()):
            self._messages -= _weight(self._kept.pop(key))

    def _oldest(self) -> Iterator[tuple[str, int]]:
        excess = self._messages - self.room
        for key, segment in self._kept.items():
            if excess <= 0:
                return
            excess -= _weight(segment)
            yield key


def _weight(segment: Segment) -> int:
    # An empty one takes room too.
    return len(segment.messages) + 1
