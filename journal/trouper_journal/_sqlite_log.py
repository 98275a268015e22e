"""Whether the log beside a journal's file belongs to it.

SQLite asks no log whose it is: what a crashed process left is laid over whatever file has the journal's name by then.
Where that is an older copy that somebody has put there, the two together are neither: the records of the copy, those
that the log brings, and nothing of what stood between them.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Final

from trouper_journal._archive_rows import has_archived
from trouper_journal._errors import JournalCorrupt
from trouper_journal._sqlite_reading import ReadOnlyFile, connect_alone

# Each is one statement, and so of one moment, whoever writes meanwhile; by whether records were archived.
_COUNTED: Final = {
    False: "SELECT position, (SELECT count(*) FROM events WHERE position > :after) FROM head",
    True: "SELECT position, (SELECT count(*) FROM events WHERE position > :after)"
    " + (SELECT count(*) FROM archived WHERE position > :after) FROM head",
}
_POSITIONS: Final = {
    False: "SELECT position FROM events WHERE position > :after ORDER BY position",
    True: "SELECT position FROM events WHERE position > :after"
    " UNION SELECT position FROM archived WHERE position > :after ORDER BY position",
}


def refuse_foreign_log(path: str) -> None:
    """Refuse a file with a log that does not go on where it ends; reads what came since its last folding, no more.

    Only with the log's index, as a crash leaves it: what was copied with its log and without that belongs together.

    Raises:
        JournalCorrupt: Records that the log builds on are not there.
        StorageUnreadable, StorageBusy, NotAJournal, JournalBroken: It cannot be read.
    """
    if not _size(f"{path}-wal") or not _size(f"{path}-shm"):
        return
    alone = _alone(path)
    if alone is None:
        return
    with ReadOnlyFile(path) as file:
        try:
            missing = file.read(lambda database: _first_missing(database, alone))
        except JournalCorrupt:
            missing = alone + 1
    if missing is not None:
        raise JournalCorrupt(
            f"{path} and the log beside it do not belong together: without it the file ends at position {alone}, and "
            f"with it, it has no record {missing}. Where a copy was put in the journal's place, move {path}-wal and "
            f"{path}-shm away, which are those of the file that it replaced",
            missing,
        )


def _alone(path: str) -> int | None:
    """Where the file ends without its log; None where that cannot be read, as while the log is folded into it."""
    try:
        with closing(connect_alone(path)) as database:
            (position,) = database.execute("SELECT position FROM head").fetchone()
    except (sqlite3.Error, TypeError):
        return None
    return position if type(position) is int and position >= 0 else None


def _first_missing(database: sqlite3.Connection, after: int) -> int | None:
    end, number = database.execute(_COUNTED[has_archived(database)], {"after": after}).fetchone()
    if type(end) is not int or end < after or number == end - after:
        return None
    expected = after + 1
    for (position,) in database.execute(_POSITIONS[has_archived(database)], {"after": after}):
        if position != expected:
            break
        expected += 1
    return expected


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
