"""Reading a response's body so that nothing of it is left behind, however the reader leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio

from trouper.core import strict_json
from trouper.core.chat_stream import DONE
from trouper.core.conversation import Value
from trouper.errors import ModelError

from ._failures import transport_errors
from ._sse import EventParser, ServerEvent

if TYPE_CHECKING:
    from ._client import Response

_DRAIN_SECONDS = 1.0


@asynccontextmanager
async def _pieces(response: Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """The body's bytes, which end with the block: read to their end if it comes soon, else cut off."""
    pieces = response.iter_bytes()
    try:
        yield pieces
        # After the last event comes at most the end of the body; with it the connection can be used again.
        with trio.move_on_after(_DRAIN_SECONDS):
            async for _ in pieces:
                pass
    finally:
        # The SDK's generators stand one inside the other, and closing the outer one would leave the inner ones to
        # the garbage collector. Going on under a cancelled scope ends each of them where it next waits for bytes.
        with trio.CancelScope(shield=True) as scope:
            scope.cancel()
            with suppress(*transport_errors()):
                async for _ in pieces:
                    pass


async def bodies(response: Response) -> AsyncGenerator[Value, None]:
    """The JSON bodies of a streamed response, one an event, with `DONE` last if the server said so.

    Use it under ``aclosing``.

    Raises:
        ModelError: If an event is not JSON.
    """
    parser = EventParser()
    async with _pieces(response) as pieces:
        async for piece in pieces:
            for body in _read(_parsed(parser, piece)):
                yield body
                if body == DONE:
                    return
        for body in _read(parser.end()):
            yield body


def _parsed(parser: EventParser, piece: bytes) -> list[ServerEvent]:
    try:
        return parser.feed(piece)
    except ValueError as error:
        raise ModelError(f"the provider's stream cannot be read: {error}", retryable=True) from error


def _read(events: list[ServerEvent]) -> Iterator[Value]:
    for event in events:
        readable, body = strict_json.parse(event.data, lenient=True)
        if readable:
            if event.name == "error" and not (isinstance(body, dict) and "error" in body):
                body = {"error": body}
            yield body
            continue
        # Some servers leave the blank lines between events out, so that several stand in one.
        for line in event.data.split("\n"):
            readable, body = strict_json.parse(line, lenient=True)
            if line.strip() == DONE:
                yield DONE
            elif readable:
                yield body
            elif line.strip():
                raise ModelError(f"a piece of the provider's stream is not JSON: {line!r}", retryable=True)


async def whole(response: Response) -> Value:
    """The JSON body of a response that is not streamed.

    Raises:
        ModelError: If it is not JSON.
    """
    text = (await response.read()).decode("utf-8", errors="replace")
    readable, body = strict_json.parse(text, lenient=True)
    if not readable:
        raise ModelError(f"the provider's answer is not JSON: {text!r}", retryable=True)
    return body
