"""A run as one stream of typed events: what is recorded, in order and complete, and live pieces in between."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Literal, Self, TypeAlias, final

from attrs import frozen

from trouper.core import events as ev
from trouper.core.conversation import Message
from trouper.core.evolve import evolve
from trouper.core.must_be import must_be, whole
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.errors import StreamOverrun, UnknownRun
from trouper.runtime.broadcast import (
    Broadcast,
    CallPiece,
    Listener,
    Piece,
    ReasoningPiece,
    RefusalPiece,
    TextPiece,
    Told,
    ToolProgress,
)
from trouper_journal import Journal, Plain

_PAGE = 200


@frozen(slots=False, repr=False, eq=False)
class Recorded(Plain):
    """An event that is in the journal for good.

    Attributes:
        run: The run.
        version: The event's version in the run's stream: give it as ``after`` to go on behind it another time.
        event: The event.
        messages: What it added to the conversation: each message comes once, whole.
    """

    run: str
    version: int
    event: object
    messages: tuple[Message, ...] = ()


@frozen(slots=False, repr=False, eq=False)
class Superseded(Plain):
    """An attempt at a model call brought no reply: the pieces that came of it are void.

    Attributes:
        run: The run.
        index: Number of the model call.
        attempt: The attempt that is void.
    """

    run: str
    index: int
    attempt: int


@frozen(slots=False, repr=False, eq=False)
class Skipped(Plain):
    """This listener was too slow for so many pieces; nothing that was recorded is missing."""

    run: str
    pieces: int


@frozen(slots=False, repr=False, eq=False)
class Ended(Plain):
    """The run is over; nothing follows.

    Attributes:
        run: The run.
        status: How it ended, as in `RunResult.status`.
    """

    run: str
    status: str


StreamEvent: TypeAlias = (
    TextPiece | ReasoningPiece | RefusalPiece | CallPiece | ToolProgress | Superseded | Skipped | Recorded | Ended
)
"""What a run's stream brings."""


@final
class RunStream:
    """The events of one run, as they come; made by `Run.stream`, to be used in ``async with``.

    Iterating raises:
        UnknownRun: There is no such run.
        StreamOverrun: This listener was too slow, and chose to be disconnected.
        RuntimeStopped: The runtime stopped before the run had ended.
        JournalError, UnknownEvent: The journal cannot be read here.
    """

    def __init__(
        self,
        journal: Journal,
        broadcast: Broadcast,
        run: str,
        *,
        after: int = 0,
        below: bool = False,
        room: int = 1000,
        lag: Literal["skip", "disconnect"] = "skip",
    ) -> None:
        must_be(run, str, "run")
        whole(after, 0, "after")
        self._journal = journal
        self._broadcast = broadcast
        self._run = run
        self._after = after
        self._below = below
        self._listener = Listener(run, below=below, room=room, lag=lag)
        self._states: dict[str, RunState] = {}
        self._ready: deque[StreamEvent] = deque()
        self._end: Ended | None = None
        self._over = False

    async def __aenter__(self) -> Self:
        self._broadcast.add(self._listener)
        self._listener.behind[self._run] = None
        if self._below:
            async for head in self._journal.streams(prefix=f"run/{self._run}~"):
                self._listener.behind[head.stream.removeprefix("run/")] = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broadcast.remove(self._listener)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        while not self._ready:
            await self._more()
        return self._ready.popleft()

    async def _more(self) -> None:
        """Put what there is into ``_ready``, or wait."""
        listener = self._listener
        if listener.overrun:
            raise StreamOverrun(f"run {self._run}: this listener was too slow for its room, as it chose to be told")
        if listener.behind:
            await self._catch_up(next(iter(listener.behind)))
        elif listener.items:
            self._take(listener.items.popleft())
        elif listener.skipped:
            self._ready.append(Skipped(self._run, listener.skipped))
            listener.skipped = 0
        elif self._over:
            raise StopAsyncIteration
        elif self._end is not None:
            self._ready.append(self._end)
            self._over = True
        elif listener.over is not None:
            raise listener.over
        else:
            await listener.park()

    async def _catch_up(self, run: str) -> None:
        """Read a page of what this listener has missed, or what was there before it came."""
        self._listener.behind.pop(run)
        state = self._states.get(run, RunState(run))
        page = await self._journal.read_page(f"run/{run}", after=state.version, limit=_PAGE)
        if len(page) == _PAGE:
            # In front, so that one run is told to its end.
            self._listener.behind = {run: None, **self._listener.behind}
        for record in page:
            self._record(run, record.version, self._journal.registry.decode(record))
        if not page and state.version == 0 and run == self._run:
            raise UnknownRun(f"there is no run {run} in this journal")

    def _take(self, item: Piece | Told) -> None:
        state = self._states.get(item.run, RunState(item.run))
        match item:
            case Told(run, version, event):
                if version == state.version + 1:
                    self._record(run, version, event)
                elif version > state.version:
                    self._listener.behind[run] = None
            case ToolProgress(_, name, attempt):
                action = state.action(name)
                if action is not None and action.attempt == attempt:
                    self._ready.append(item)
                else:
                    self._listener.skipped += 1
            case _:
                call = state.model
                if call is not None and (call.index, call.attempt) == (item.index, item.attempt):
                    self._ready.append(item)
                else:
                    # Its attempt was over by the time that this listener came to it.
                    self._listener.skipped += 1

    def _record(self, run: str, version: int, event: object) -> None:
        before = self._states.get(run, RunState(run))
        state = self._states[run] = evolve(before, event)
        if run != self._run or version > self._after:
            if isinstance(event, ev.ModelFailed | ev.ModelLost):
                self._ready.append(Superseded(run, event.index, event.attempt))
            self._ready.append(Recorded(run, version, event, _added(before.messages, state.messages)))
        if run == self._run:
            # A run that ended may have gone on since.
            self._end = Ended(run, status(state).label) if state.ended else None


def _added(before: tuple[Message, ...], now: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages that are new."""
    if now is before:
        return ()
    if before and len(now) > len(before) and now[len(before) - 1] is before[-1]:
        return now[len(before) :]
    known = {message.id: message for message in before}
    return tuple(message for message in now if known.get(message.id) is not message)
