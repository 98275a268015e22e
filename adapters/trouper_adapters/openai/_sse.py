"""Server-sent events from bytes.

A line ends at LF, CR LF or CR and nowhere else: text that holds U+2028 or U+0085 stays whole, unlike with
``str.splitlines`` and the line iterators built on it.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import re

from attrs import frozen

from trouper_journal import Printable

_LINE_END = re.compile(rb"\r\n|\n|\r")


@frozen(repr=False)
class ServerEvent(Printable):
    """One event.

    Attributes:
        name: Its ``event`` field; empty where it has none.
        data: Its ``data`` lines, joined by line feeds.
    """

    name: str
    data: str


class EventParser:
    """Takes bytes in any cut and gives events.

    Raises:
        ValueError: From `feed`, for an event longer than the limit.
    """

    def __init__(self, *, limit: int = 16 * 1024 * 1024) -> None:
        self._limit = limit
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._held = 0

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that are complete with this piece."""
        buffer = self._rest + piece
        # A CR at the end may be half of a CR LF.
        held = b"\r" if buffer.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(buffer.removesuffix(held) if held else buffer)
        self._rest = rest + held
        events = [event for line in lines if (event := self._line(line)) is not None]
        if self._held + len(self._rest) > self._limit:
            raise ValueError(f"an event of the stream is longer than {self._limit} bytes")
        return events

    def end(self) -> list[ServerEvent]:
        """What the stream's end completes: servers leave the last blank line out, so an open event counts."""
        last = self._line(self._rest.removesuffix(b"\r")) if self._rest else None
        self._rest = b""
        return [event for event in (last, self._line(b"")) if event is not None]

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            event = ServerEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._held = "", [], 0
            return event
        field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", errors="replace")
        if field == b"data":
            self._data.append(text)
            self._held += len(line)
        elif field == b"event":
            self._name = text
        return None
