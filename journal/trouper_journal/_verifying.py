"""The door to verification, which is loaded when it is first asked for.

Most programs never verify, and all of them would pay for it whenever they start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trouper_journal._store import Store
from trouper_journal._verification import Verification


async def verify(
    store: Store,
    progress: Callable[[int, int], None] | None = None,
    *,
    sizes: Iterable[int] = (),
    jobs: int = 1,
) -> Verification:
    """Check every record up to the present head; commits made meanwhile do no harm and are not checked.

    Memory grows by some 300 bytes for each stream and 32 for each large value, not with the number of records.

    Args:
        store: The opened storage.
        progress: Called after each page with the records checked and their total.
        sizes: For which numbers of records to give the root, too.
        jobs: How many processes read and check a file; one is this process, in the storage's thread.

    Raises:
        StorageBusy, JournalBroken: The storage could not be read; damage that it reports is a problem instead.
    """
    from trouper_journal._verify import check

    return await check(store, progress, sizes, jobs)
