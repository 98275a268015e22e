"""The leaves of a page of records, as they stand in a file that anybody may have written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trouper_journal._errors import JournalCorrupt
from trouper_journal._records import Record

_SIZE: Final = 32


def leaves_of(page: Sequence[Record], after: int) -> list[bytes]:
    """The leaves of a page behind a position: at least one, and without a gap.

    Raises:
        JournalCorrupt: One is missing, or is none.
    """
    for number, record in enumerate(page, after + 1):
        if record.position != number or type(record.leaf) is not bytes or len(record.leaf) != _SIZE:
            raise JournalCorrupt("the leaf is missing: verify tells more", number)
    if not page:
        raise JournalCorrupt("the leaf is missing: verify tells more", after + 1)
    return [record.leaf for record in page]
