"""What is told of a place where something else stands than was recorded."""

from __future__ import annotations

from trouper.narration.line import Line
from trouper.narration.text import clean
from trouper_journal import Damaged


def damage_line(record: Damaged) -> Line:
    """The line in place of the record's; nothing of what stands there is told, because nobody has recorded it."""
    where = f"position {record.first}: " if record.first > 0 else ""
    return Line("?", f"[damaged] {where}{clean(record.told)}", "bad")
