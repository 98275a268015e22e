"""Reading: records in pages, once or live. Iterators are classes, which may be left at any time without ado."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Self, TypeVar

import trio

from trouper_journal._attached import Opener, with_values
from trouper_journal._damaged import Whole
from trouper_journal._errors import JournalClosed
from trouper_journal._news import Arrival, Inbox, NewsHub
from trouper_journal._records import Record
from trouper_journal._store import Store

PAGE: Final = 256
"""Records in one read; a page is read in one short transaction, so that readers never hold the log back."""

T = TypeVar("T")


class Pages(Generic[T]):
    """An asynchronous iterator over what a function reads page by page, until a page comes short.

    Each page is a consistent view; what is appended during the iteration may or may not be seen.

    Args:
        read: Reads the page that follows an item; the first page for None.
        checked: Whether a page may come short because of what is wrong behind it: then one that is `Whole` is the end.
    """

    def __init__(self, read: Callable[[T | None], Awaitable[Sequence[T]]], *, checked: bool = False) -> None:
        self._read = read
        self._checked = checked
        self._page: deque[T] = deque()
        self._last: T | None = None
        self._done = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._page:
            await self._turn()
        self._last = self._page.popleft()
        return self._last

    async def _turn(self) -> None:
        if self._done:
            raise StopAsyncIteration
        page = await self._read(self._last)
        self._done = len(page) < PAGE and (not self._checked or isinstance(page, Whole))
        if not page:
            raise StopAsyncIteration
        self._page.extend(page)


class Records(Pages[Record]):
    """Pages of records, each handed out with the large values that it refers to, one at a time."""

    def __init__(
        self,
        store: Store,
        read: Callable[[Record | None], Awaitable[Sequence[Record]]],
        sealer: Opener | None = None,
        *,
        checked: bool = False,
    ) -> None:
        super().__init__(read, checked=checked)
        self._store = store
        self._sealer = sealer

    async def __anext__(self) -> Record:
        if not self._page:
            await self._turn()
        record = self._page[0]
        if self._sealer is not None or record.large:
            record = await with_values(self._store, record, self._sealer)
        self._page.popleft()
        self._last = record
        return record


class Tail:
    """An asynchronous iterator over all records from a position on: first what is there, then what comes.

    It ends when the journal is left. Records come in order, none is left out, none comes twice, also those that
    other processes append. It holds at most one page; a slow reader delays nobody.

    Cancelling ``__anext__`` loses nothing: the next call goes on where the last record was handed out.
    """

    def __init__(self, store: Store, news: NewsHub, after: int, sealer: Opener | None = None) -> None:
        self._store = store
        self._sealer = sealer
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
            try:
                self._news.check()
            except JournalClosed:
                raise StopAsyncIteration from None
            page = await self._store.read_all(self._position, PAGE)
            self._page.extend(page)
            if not page and not await self._news.beyond(self._position):
                raise StopAsyncIteration
        record = self._page[0]
        if self._sealer is not None or record.large:
            record = await with_values(self._store, record, self._sealer)
        self._page.popleft()
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
        if self._seen is None:
            raise RuntimeError("news are to be waited for inside of their `async with` block")
        await trio.lowlevel.checkpoint()
        going = await self._hub.beyond(self._seen)
        self._seen = max(self._seen, self._hub.position)
        return going


class Arrivals:
    """Tells to which streams others than the driver append: other processes, and this one without a fence.

    Used as ``async with journal.arrivals() as arrivals``; what is committed after the block was entered is never
    missed, and several commits make one arrival. The driver's own commits, which are most, wake nobody.
    """

    def __init__(self, store: Store, hub: NewsHub) -> None:
        self._store = store
        self._hub = hub
        self._inbox = Inbox()
        self._entered = False

    async def __aenter__(self) -> Self:
        self._entered = True
        self._hub.subscribe(self._inbox)
        try:
            self._inbox.seen = max(self._inbox.seen, await self._store.position())
        except BaseException:
            self._hub.unsubscribe(self._inbox)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._entered = False
        self._hub.unsubscribe(self._inbox)

    async def wait(self) -> Arrival | None:
        """Wait until something has arrived since the last wait; None once the journal is being left.

        Cancelling loses nothing: the next wait returns at once if there was an arrival.
        """
        if not self._entered:
            raise RuntimeError("arrivals are to be waited for inside of their `async with` block")
        return await self._hub.arrival(self._inbox)
