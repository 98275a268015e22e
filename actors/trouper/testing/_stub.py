"""A strict Chat Completions server on loopback: real HTTP over real sockets, answers from a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import TypeAlias

import h11
import trio
from attrs import frozen

from trouper.core import strict_json
from trouper.core.conversation import Value
from trouper_journal import Plain

from ._answers import Answer, Chunks, Drop, Raw, Reply, Status, Wait, chunk_events, dump, in_pieces, whole
from ._strict import violations

_READ = 65536
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError)

Script: TypeAlias = Sequence[Answer] | Callable[[dict[str, Value]], Answer | Awaitable[Answer]]
"""Answers in order, or a function (plain or async) from a request's JSON to its answer."""


@frozen(slots=False, repr=False, eq=False)
class StubRequest(Plain):
    """A request that the stub was sent.

    Attributes:
        body: Its JSON; empty where it is none.
        headers: Its headers, names in small letters.
        raw: Its body's bytes.
    """

    body: dict[str, Value]
    headers: Mapping[str, str]
    raw: bytes

    @property
    def messages(self) -> list[dict[str, Value]]:
        """The request's messages."""
        messages = self.body.get("messages")
        return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


class StrictStub:
    """What `strict_stub` gives: the server's address and what happened to it.

    Attributes:
        url: The base URL, such as ``http://127.0.0.1:40123/v1``.
        requests: Every request, in order of arrival.
        violations: Every rule that a request broke; it was answered with 400.
        unexpected: Requests for which the script had no answer; they got 400 as well.
        disconnects: How often a client went away before its answer was complete.
        connections: How many connections are open.
        accepted: How many connections there have been.
    """

    def __init__(self, script: Script, url: str, *, by_turn: bool, on_request: Callable[[StubRequest], None]) -> None:
        self.url = url
        self.requests: list[StubRequest] = []
        self.violations: list[str] = []
        self.unexpected: list[str] = []
        self.disconnects = 0
        self.connections = 0
        self.accepted = 0
        self._script = script
        self._by_turn = by_turn
        self._on_request = on_request
        self._served = 0
        self._changed = trio.Event()

    async def wait_until(self, condition: Callable[[StrictStub], bool]) -> None:
        """Wait until something about this stub is true: ``lambda stub: stub.disconnects == 1``."""
        while not condition(self):
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    async def wait_requests(self, count: int) -> None:
        """Wait until this many requests have arrived."""
        await self.wait_until(lambda stub: len(stub.requests) >= count)

    def assert_clean(self) -> None:
        """Check that every request was valid and had an answer.

        Raises:
            AssertionError: If not; it names each broken rule.
        """
        if self.violations or self.unexpected:
            raise AssertionError("; ".join([*self.violations, *self.unexpected]))

    def assert_done(self) -> None:
        """Check `assert_clean`, and that a script that is a list was used to its end.

        Raises:
            AssertionError: If not.
        """
        self.assert_clean()
        if not callable(self._script) and self._served < len(self._script):
            raise AssertionError(f"{self._served} of {len(self._script)} answers were asked for")

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _answer(self, request: StubRequest) -> Answer:
        self.requests.append(request)
        self._on_request(request)
        broken = violations(request.raw)
        self.violations += [f"request {len(self.requests)}: {each}" for each in broken]
        self._note()
        if broken:
            return _refusal("; ".join(broken))
        if callable(self._script):
            answer = self._script(request.body)
            return await answer if isawaitable(answer) else answer
        turn = sum(message.get("role") == "assistant" for message in request.messages)
        place = turn if self._by_turn else self._served
        if place >= len(self._script):
            self.unexpected.append(f"request {len(self.requests)}: the script has {len(self._script)} answers only")
            return _refusal(self.unexpected[-1])
        self._served = max(self._served, place + 1)
        return self._script[place]

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        self.accepted += 1
        connection = _Connection(stream)
        try:
            while (request := await connection.receive()) is not None:
                path, received = request
                if not path.partition("?")[0].endswith("/chat/completions"):
                    await connection.send(404, dump({"error": {"message": f"no {path} here"}}))
                elif not await self._exchange(connection, received):
                    break
        except _GONE:
            self.disconnects += 1
        finally:
            self.connections -= 1
            self._note()
            await trio.aclose_forcefully(stream)

    async def _exchange(self, connection: _Connection, request: StubRequest) -> bool:
        """Answer one request; False if the connection shall be closed."""
        answer = await self._answer(request)
        if isinstance(answer, Wait):
            await connection.wait(answer.event)
            answer = answer.then
        if isinstance(answer, str):
            answer = Reply(answer)
        if isinstance(answer, Reply) and request.body.get("stream"):
            answer = in_pieces(answer)
        headers = {"x-request-id": f"req-{len(self.requests)}"}
        number, model = len(self.requests), request.body.get("model")
        match answer:
            case Reply():
                await connection.send(200, dump(whole(answer, model, number)), headers)
            case Status(status, body, more):
                sent = body if isinstance(body, bytes) else dump(body)
                await connection.send(status, sent, {**headers, **more})
            case Raw(body, content_type):
                await connection.send(200, body, {**headers, "content-type": content_type})
            case Chunks():
                usage = bool(request.body.get("stream_options"))
                await connection.start(200, {**headers, "content-type": "text/event-stream"})
                for event in chunk_events(answer, model, number, usage=usage):
                    await (connection.wait(event) if isinstance(event, trio.Event) else connection.piece(event))
                if answer.cut:
                    return False
                await connection.end()
            case Drop():
                return False
        return True


class _Connection:
    """One client's connection, as HTTP/1.1."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER)

    async def receive(self) -> tuple[str, StubRequest] | None:
        """The next request; None when the client is done."""
        if self._http.our_state is h11.MUST_CLOSE:
            return None
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        head: h11.Request | None = None
        raw = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._stream.receive_some(_READ))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                raw += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
                _, body = strict_json.parse(raw.decode("utf-8", errors="replace"))
                parsed = body if isinstance(body, dict) else {}
                return head.target.decode(), StubRequest(parsed, headers, bytes(raw))
            else:
                return None

    async def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """A whole response."""
        given = {"content-type": "application/json", **(headers or {}), "content-length": str(len(body))}
        await self.start(status, given)
        await self.piece(body)
        await self.end()

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of a response."""
        await self._write(h11.Response(status_code=status, headers=list(headers.items())))

    async def piece(self, data: bytes) -> None:
        """The next bytes of a response's body."""
        await self._write(h11.Data(data=data))

    async def end(self) -> None:
        """The end of a response."""
        await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send_all(data)

    async def wait(self, event: trio.Event) -> None:
        """Wait for an event, or until the client goes away.

        Raises:
            trio.BrokenResourceError: If it did.
        """
        gone = False

        async def watch() -> None:
            nonlocal gone
            # The client has nothing more to say before its answer.
            try:
                gone = await self._stream.receive_some(_READ) == b""
            except trio.BrokenResourceError:
                gone = True
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await event.wait()
            nursery.cancel_scope.cancel()
        if gone:
            raise trio.BrokenResourceError


def _refusal(why: str) -> Status:
    return Status(400, {"error": {"message": why, "type": "invalid_request_error"}})


@asynccontextmanager
async def strict_stub(
    script: Script = (),
    *,
    by_turn: bool = False,
    port: int = 0,
    on_request: Callable[[StubRequest], None] = lambda _: None,
) -> AsyncIterator[StrictStub]:
    """Serve a script on loopback for as long as the block runs.

    A request that a strict provider would refuse gets HTTP 400, and so does one for which the script has no answer;
    end the test with `StrictStub.assert_clean` or `StrictStub.assert_done`, because a client may hide a 400.

    Args:
        script: The answers; a `str` is a `Reply` with that text.
        by_turn: Whether the answer is chosen by the number of assistant messages in the request, not by its order, so
            that a client that was killed and started again is answered in its place.
        port: The port; 0 takes a free one.
        on_request: Called with each request as it arrives.
    """
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    address = listeners[0].socket.getsockname()
    stub = StrictStub(script, f"http://127.0.0.1:{address[1]}/v1", by_turn=by_turn, on_request=on_request)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, stub._serve, listeners)  # noqa: SLF001 -- the server's other half
            try:
                yield stub
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # That a nursery serves the block is no business of a test that expects an error from it.
        if len(group.exceptions) > 1:
            raise
        error = group.exceptions[0]
        raise error from error.__cause__
