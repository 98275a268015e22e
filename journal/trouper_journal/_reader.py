"""What can be asked of a journal: its records, streams, keys and news."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from trouper_journal._attached import Opener, original, with_values
from trouper_journal._damaged import Whole
from trouper_journal._news import NewsHub
from trouper_journal._proposals import MAX_INT, plain_name
from trouper_journal._records import Committed, Record, StreamHead
from trouper_journal._store import Store
from trouper_journal._tail import PAGE, Arrivals, News, Pages, Records, Tail


class Reader:
    """Reads a store page by page.

    Args:
        store: The store.
        news: Tells what is committed, and that the journal is left.
        opener: Opens sealed content.
        checked: Whether the store checks what it gives, so that a short page need not be the last.
    """

    def __init__(self, store: Store, news: NewsHub, opener: Opener | None, *, checked: bool) -> None:
        self._reading = store
        self._news = news
        self._opener = opener
        self._checked = checked

    def read_from(self, store: Store, *, checked: bool) -> None:
        """Read from another store over the same records."""
        self._reading = store
        self._checked = checked

    @property
    def reading(self) -> Store:
        """What records and large values are read from: the storage engine, or what checks all that it gives."""
        return self._reading

    def read(self, stream: str, *, after: int = 0) -> AsyncIterator[Record]:
        """The records of a stream with versions above ``after``, in order; none where there is no such stream.

        Iterating raises StorageBusy, JournalCorrupt or JournalBroken where the storage cannot be read, and
        JournalClosed once the block has been left.
        """
        begin = bounded(after, "after")

        async def page(last: Record | None) -> Sequence[Record]:
            return await self._read_stream(stream, begin if last is None else last.version, PAGE)

        return Records(self._reading, page, self._opener, checked=self._checked)

    def read_all(self, *, after: int = 0) -> AsyncIterator[Record]:
        """All records with positions above ``after``, in order, up to the present end; errors as for ``read``."""
        begin = bounded(after, "after")

        async def page(last: Record | None) -> Sequence[Record]:
            self._check_open()
            return await self._reading.read_all(begin if last is None else last.position, PAGE)

        return Records(self._reading, page, self._opener, checked=self._checked)

    async def read_all_page(self, after: int = 0, limit: int = PAGE) -> Sequence[Record]:
        """Up to ``limit`` records with positions above ``after``, without their large values; an empty page is the end.

        Errors as for ``read``.
        """
        self._check_open()
        return await self._reading.read_all(bounded(after, "after"), max(1, bounded(limit, "limit")))

    async def read_page(self, stream: str, after: int = 0, limit: int = PAGE) -> Sequence[Record]:
        """Up to ``limit`` records of a stream with versions above ``after``: the fast way to fold one.

        A page that comes short is the last. The large values of all of them are held at once. Errors as for ``read``.
        """
        limit = max(1, bounded(limit, "limit"))
        page = records = await self._read_stream(stream, bounded(after, "after"), limit)
        while self._checked and page and len(records) < limit and not isinstance(page, Whole):
            # It may come short because of what is wrong behind it, once or several times.
            page = await self._read_stream(stream, records[-1].version, limit - len(records))
            records = [*records, *page]
        if self._opener is not None or any(record.large for record in records):
            return [await with_values(self._reading, record, self._opener) for record in records]
        return records

    def tail(self, *, after: int = 0) -> Tail:
        """All records with positions above ``after``, and then what comes, also from other processes.

        Raises:
            JournalClosed: The block has been left.
        """
        self._check_open()
        return Tail(self._reading, self._news, bounded(after, "after"), self._opener)

    def news(self) -> News:
        """A subscription to the bare fact that something was committed.

        Raises:
            JournalClosed: The block has been left.
        """
        self._check_open()
        return News(self._reading, self._news)

    def arrivals(self) -> Arrivals:
        """A subscription to what others than the driver append: which streams, as far as this process knows.

        Raises:
            JournalClosed: The block has been left.
        """
        self._check_open()
        return Arrivals(self._reading, self._news)

    def streams(
        self, *, label: str | None = None, prefix: str = "", wake_before: int | None = None
    ) -> AsyncIterator[StreamHead]:
        """Streams in order of creation. Errors as for ``read``.

        Args:
            label: Only those with this label.
            prefix: Only those whose name begins so.
            wake_before: Only those with a ``wake_at`` of at most this moment, ns UTC.
        """
        status, begin = plain_name(label), plain_name(prefix)
        nameless = (label is not None and status is None) or (prefix != "" and begin is None)
        due = None if wake_before is None else bounded(wake_before, "wake_before")

        async def page(last: StreamHead | None) -> Sequence[StreamHead]:
            self._check_open()
            if nameless:
                return []
            after = "" if last is None else last.stream
            read = self._reading.streams
            return await read(label=status, prefix=begin or "", wake_before=due, after=after, limit=PAGE)

        return Pages(page)

    async def next_wake(self, *, after: int) -> int | None:
        """The earliest ``wake_at`` of any stream that is later than ``after`` (ns UTC); None where there is none."""
        self._check_open()
        return await self._reading.next_wake(bounded(after, "after"))

    async def head(self, stream: str) -> StreamHead | None:
        """Where a stream stands; None where there is no such stream."""
        self._check_open()
        name = plain_name(stream)
        return None if name is None else (await self._reading.load([name], [])).streams.get(name)

    async def position(self) -> int:
        """Position of the last record, read from the storage."""
        self._check_open()
        return await self._reading.position()

    async def find(self, key_name: str) -> Committed | None:
        """What was committed under a key; None where nothing was."""
        self._check_open()
        name = plain_name(key_name)
        entry = None if name is None else (await self._reading.load([], [name])).keys.get(name)
        return None if entry is None else await original(self._reading, entry, self._opener)

    async def _read_stream(self, stream: str, after: int, limit: int) -> Sequence[Record]:
        self._check_open()
        name = plain_name(stream)
        return [] if name is None else await self._reading.read_stream(name, after, limit)

    def _check_open(self) -> None:
        self._news.check()


def bounded(number: int, what: str) -> int:
    """A version, position, time or number within what storages can compare with."""
    if type(number) is not int:
        raise TypeError(f"{what}: {number!r} is not an integer")
    return max(0, min(number, MAX_INT))
