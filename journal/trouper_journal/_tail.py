"""Reading: records in pages, once or live. Iterators are classes, which may be left at any time without ado."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Self, TypeVar

import attrs
import trio

from trouper_journal._news import NewsHub
from trouper_journal._records import Record, StreamHead
from trouper_journal._store import Store
from trouper_journal._values import references

PAGE: Final = 256
"""Records in one read; a page is read in one short transaction, so that readers never hold the log back."""

_SALT: Final = 16

T = TypeVar("T")


class Pages(Generic[T]):
    """An asynchronous iterator over what a function reads page by page, until a page comes short.

    Each page is a consistent view; what is appended during the iteration may or may not be seen.
    """

    def __init__(self, read: Callable[[T | None], Awaitable[Sequence[T]]], size: int = PAGE) -> None:
        self._read = read
        self._size = size
        self._page: deque[T] = deque()
        self._last: T | None = None
        self._done = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._page:
            if self._done:
                raise StopAsyncIteration
            page = await self._read(self._last)
            self._done = len(page) < self._size
            self._page.extend(page)
            if not self._page:
                raise StopAsyncIteration
        self._last = self._page.popleft()
        return self._last


class Tail:
    """An asynchronous iterator over all records from a position on: first what is there, then what comes.

    It ends when the journal is left. Records come in order, none is left out, none comes twice, also those that
    other processes append. It holds at most one page; a slow reader delays nobody.

    Cancelling ``__anext__`` loses nothing: the next call goes on where the last record was handed out.
    """

    def __init__(self, store: Store, news: NewsHub, after: int) -> None:
        self._store = store
        self._news = news
        self._page: deque[Record] = deque()
        self._position = after

    @property
    def position(self) -> int:
        """Position of the last record handed out."""
        return self._position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        while not self._page:
            if self._news.closed:
                raise StopAsyncIteration
            page = await self._store.read_all(self._position, PAGE)
            self._page.extend(await attach_values(self._store, page))
            if not page and not await self._news.beyond(self._position):
                raise StopAsyncIteration
        record = self._page.popleft()
        self._position = record.position
        return record


class News:
    """Tells that something was committed, here or by another process; several commits make one piece of news.

    Used as ``async with journal.news() as news``; what is committed after the block was entered is never missed.
    """

    def __init__(self, store: Store, hub: NewsHub) -> None:
        self._store = store
        self._hub = hub
        self._seen: int | None = None

    async def __aenter__(self) -> Self:
        self._seen = await self._store.position()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._seen = None

    async def wait(self) -> bool:
        """Wait until something was committed since the last wait; False once the journal is being left.

        Cancelling loses nothing: the next wait returns at once if there was news.
        """
        assert self._seen is not None
        await trio.lowlevel.checkpoint()
        going = await self._hub.beyond(self._seen)
        self._seen = max(self._seen, self._hub.position)
        return going


async def attach_values(store: Store, records: Sequence[Record]) -> Sequence[Record]:
    """The records with the large values that they refer to."""
    if not any(record.large for record in records):
        return records
    result: list[Record] = []
    for record in records:
        if record.large and record.key_id is None:
            digests = {reference.digest for reference in references(record.content[_SALT:])}
            result.append(attrs.evolve(record, values=await store.values(digests)))
        else:
            result.append(record)
    return result


def heads_reader(
    store: Store, *, label: str | None, prefix: str, wake_before: int | None
) -> Callable[[StreamHead | None], Awaitable[Sequence[StreamHead]]]:
    """Reads stream heads page by page."""

    async def read(last: StreamHead | None) -> Sequence[StreamHead]:
        after = last.stream if last is not None else ""
        return await store.streams(label=label, prefix=prefix, wake_before=wake_before, after=after, limit=PAGE)

    return read
