"""Whether the index of streams can be complete, without reading the records that it is an index of."""

from __future__ import annotations

import sqlite3
from typing import Final

import attrs

from trouper_journal._printable import Plain

SOUND: Final = (
    "typeof(name) = 'text' AND typeof(version) = 'integer' AND version > 0 AND typeof(position) = 'integer' "
    "AND typeof(label) IN ('text', 'null') AND typeof(wake_at) IN ('integer', 'null')"
)
"""What each row of the index is."""

_SUM: Final = (
    "SELECT (SELECT position FROM head), ifnull(sum(version), 0), ifnull(max(position), 0) FROM streams "  # noqa: S608 -- made of the constant above
    f"WHERE {SOUND}"
)
_ORPHAN: Final = f"SELECT min(position) FROM events WHERE stream_id NOT IN (SELECT id FROM streams WHERE {SOUND})"  # noqa: S608 -- made of the constant above


@attrs.frozen(slots=False, repr=False, eq=False)
class IndexProblem(Plain):
    """What is wrong with the index as a whole.

    Attributes:
        message: In words.
        position: Of the first record that is in no stream; 0 where all are in one.
    """

    message: str
    position: int


def index_problem(database: sqlite3.Connection) -> IndexProblem | None:
    """What is wrong with the index of streams; None where nothing shows.

    Versions have no gaps, so that the last ones of all streams add up to the number of records; and none of them stands
    beyond the head. It takes as long as
    reading the index; the records are looked at only where it does not add up.
    """
    end, number, last = database.execute(_SUM).fetchone()
    if type(end) is not int:
        return IndexProblem("the journal's head is at no position", 0)
    if end == number and last <= end:
        return None
    (orphan,) = database.execute(_ORPHAN).fetchone()
    if orphan is not None:
        return IndexProblem("the record's stream is missing from the index of streams, or is no row of one", orphan)
    if last > end:
        return IndexProblem(f"the index of streams leads to position {last}, and the head is at {end}", end + 1)
    return IndexProblem(f"the streams have {number} records together, and the head is at position {end}", 0)
