"""Live news of runs, for whoever listens: pieces of replies, progress of tools, and what was just recorded.

Nothing here waits: whoever tells news goes on at once, and a listener that does not keep up loses pieces, or its place,
as it chose. What is recorded can be read again; pieces are gone when nobody heard them, and cost nothing then.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Literal, TypeAlias, final

import trio
from attrs import frozen

from trouper.core.conversation import Value
from trouper.core.exchange import Chunk, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from trouper.core.must_be import whole
from trouper.errors import InvalidValue
from trouper_journal import Plain

CHILD: Final = "~"
"""Stands between a run's id and the action that began a run below it."""


@frozen(slots=False, repr=False, eq=False)
class TextPiece(Plain):
    """The next piece of a reply's text.

    Attributes:
        run: The run.
        index: Number of the model call in the run.
        attempt: Number of the attempt at it; what came of an earlier attempt is void.
        text: The piece.
    """

    run: str
    index: int
    attempt: int
    text: str


@frozen(slots=False, repr=False, eq=False)
class ReasoningPiece(Plain):
    """The next piece of the reasoning that the provider discloses; attributes as for `TextPiece`."""

    run: str
    index: int
    attempt: int
    text: str


@frozen(slots=False, repr=False, eq=False)
class RefusalPiece(Plain):
    """The next piece of a refusal; attributes as for `TextPiece`."""

    run: str
    index: int
    attempt: int
    text: str


@frozen(slots=False, repr=False, eq=False)
class CallPiece(Plain):
    """The next piece of a tool call; attributes as for `TextPiece`, and these.

    Attributes:
        call: The call's place in the reply as far as known by now.
        name: The tool's name, where this piece brought one.
        arguments: The next piece of the argument text.
    """

    run: str
    index: int
    attempt: int
    call: int
    name: str | None = None
    arguments: str = ""


@frozen(slots=False, repr=False, eq=False)
class ToolProgress(Plain):
    """A tool tells how far its work has come.

    Attributes:
        run: The run.
        action: The action within the run, such as ``0.1``.
        attempt: Number of the attempt at it.
        value: What the tool told.
    """

    run: str
    action: str
    attempt: int
    value: Value


ModelPiece: TypeAlias = TextPiece | ReasoningPiece | RefusalPiece | CallPiece
Piece: TypeAlias = ModelPiece | ToolProgress


@frozen(slots=False, repr=False, eq=False)
class Told(Plain):
    """Something that was just recorded, or read, in a run's stream."""

    run: str
    version: int
    event: object


class Listener:
    """One listener's buffer.

    Args:
        run: The run that is listened to.
        below: Whether to hear the runs below it too.
        room: How many items may wait.
        lag: What happens where that is not enough: ``skip`` pieces, or ``disconnect``.

    Attributes:
        items: What waits.
        skipped: Pieces that found no room since this was last looked at.
        behind: Runs whose records found no room: they are to be read.
        overrun: Whether the listener is to be disconnected.
        over: Why there will be no more news, once that is so.
    """

    def __init__(self, run: str, *, below: bool, room: int, lag: Literal["skip", "disconnect"]) -> None:
        # A listener that cannot be offered anything would fail the run that offers it.
        whole(room, 1, "room")
        if lag not in ("skip", "disconnect"):
            raise InvalidValue("lag", f"{lag!r} is neither skip nor disconnect")
        self.items: deque[Piece | Told] = deque()
        self.skipped = 0
        self.behind: dict[str, None] = {}
        self.overrun = False
        self.over: Exception | None = None
        self._run = run
        self._prefix = f"{run}{CHILD}" if below else None
        self._room = room
        self._lag = lag
        self._reader = trio.lowlevel.ParkingLot()

    def hears(self, run: str) -> bool:
        """Whether news of that run is for this listener."""
        return run == self._run or (self._prefix is not None and run.startswith(self._prefix))

    def offer(self, item: Piece | Told) -> None:
        """Take an item in, if there is room."""
        if len(self.items) < self._room:
            self.items.append(item)
        elif self._lag == "disconnect":
            self.overrun = True
        elif isinstance(item, Told):
            self.behind[item.run] = None
        else:
            self.skipped += 1
        self.wake()

    def wake(self) -> None:
        """Let the reader look."""
        self._reader.unpark_all()

    async def park(self) -> None:
        """Sleep until there may be something."""
        await self._reader.park()


@final
class Broadcast:
    """Who listens to what, in one runtime."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._over: Exception | None = None

    def add(self, listener: Listener) -> None:
        """Let somebody listen."""
        self._listeners.add(listener)
        listener.over = self._over

    def remove(self, listener: Listener) -> None:
        """Somebody listens no more."""
        self._listeners.discard(listener)

    def listened(self, run: str) -> bool:
        """Whether anybody listens to that run."""
        return bool(self._listeners) and any(listener.hears(run) for listener in self._listeners)

    def tell(self, item: Piece | Told) -> None:
        """Tell whoever listens; never waits."""
        for listener in self._listeners:
            if listener.hears(item.run):
                listener.offer(item)

    def close(self, reason: Exception) -> None:
        """There will be no more news."""
        self._over = reason
        for listener in self._listeners:
            listener.over = reason
            listener.wake()


def piece_of(run: str, index: int, attempt: int, chunk: Chunk) -> ModelPiece | None:
    """What a listener hears of a chunk of a reply; None where that is nothing."""
    match chunk:
        case TextDelta(text):
            return TextPiece(run, index, attempt, text)
        case ReasoningDelta(text):
            return ReasoningPiece(run, index, attempt, text)
        case RefusalDelta(text):
            return RefusalPiece(run, index, attempt, text)
        case ToolCallDelta(call, _, name, arguments):
            return CallPiece(run, index, attempt, call, name, arguments)
        case _:
            return None
