"""Changes that a journal's own triggers refuse."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from trouper_journal import EMPTY_RANGE
from trouper_journal._digest import leaf_of

_COLUMNS = (
    "e.position, s.name, e.version, e.type, e.schema, e.recorded_at, e.key, e.label, e.wake_at, e.key_id, "
    "e.meta, e.facts, ifnull(e.content, x'')"
)


def tampered(path: Path, statement: str, *values: object) -> int:
    """Change a journal behind its back; how many rows that were.

    The statement may use ``reworded(content, old, new)``.
    """
    database = sqlite3.connect(path)
    database.create_function("reworded", 3, _reworded)
    try:
        with database:
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                database.execute(f'DROP TRIGGER "{name}"')
            return database.execute(statement, values).rowcount
    finally:
        database.close()


def forged(path: Path, statement: str, *values: object) -> int:
    """As `tampered`, by somebody who makes the digests and the tree fit afterwards: only a checkpoint would show it."""
    changed = tampered(path, statement, *values)
    with closing(sqlite3.connect(path)) as database, database:
        (journal_id,) = database.execute("SELECT id FROM journal").fetchone()
        rows = database.execute(f"SELECT {_COLUMNS} FROM events e JOIN streams s ON s.id = e.stream_id ORDER BY 1")
        leaves = {row[0]: leaf_of(journal_id, *row) for row in rows.fetchall()}
        database.executemany(
            "UPDATE events SET leaf = ? WHERE position = ?", [(leaf, at) for at, leaf in leaves.items()]
        )
        tree = EMPTY_RANGE.extend(leaves[at] for at in sorted(leaves))
        database.execute("UPDATE head SET range = ?", (tree.to_bytes(),))
    return changed


def _reworded(content: bytes | str, old: bytes, new: bytes) -> bytes | str:
    return content.replace(old, new) if isinstance(content, bytes) else content


OF_STREAM = "stream_id = (SELECT id FROM streams WHERE name = ?)"
