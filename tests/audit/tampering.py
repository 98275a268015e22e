"""Changes that a journal's own triggers refuse."""

from __future__ import annotations

import sqlite3
from pathlib import Path


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


def _reworded(content: bytes | str, old: bytes, new: bytes) -> bytes | str:
    return content.replace(old, new) if isinstance(content, bytes) else content


OF_STREAM = "stream_id = (SELECT id FROM streams WHERE name = ?)"
