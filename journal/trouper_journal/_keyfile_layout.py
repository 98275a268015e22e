"""The tables of a file of keys, and what tells such a file from others. ``docs/format.md`` gives the layout."""

from __future__ import annotations

import sqlite3
from typing import Final

from trouper_journal._keystore import KeyStoreError

APPLICATION_ID: Final = 0x5452504B
"""Marks the file as Trouper's keys (SQLite header, offset 68)."""

LAYOUT: Final = 1
"""Number of the table layout (``user_version``)."""

TABLES: Final = (
    """CREATE TABLE vault (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    master TEXT NOT NULL
)""",
    """CREATE TABLE keys (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    journal BLOB NOT NULL,
    domain TEXT NOT NULL,
    state TEXT NOT NULL,
    wrapped BLOB
)""",
    "CREATE UNIQUE INDEX keys_active ON keys (journal, domain) WHERE state = 'active'",
    "CREATE INDEX keys_domain ON keys (journal, domain)",
)


def is_laid_out(database: sqlite3.Connection, path: str) -> bool:
    """Whether a file is one of keys; False where it is empty still.

    Raises:
        KeyStoreError: It is something else.
    """
    application, layout, tables = database.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application == APPLICATION_ID and layout == LAYOUT:
        return True
    if application == APPLICATION_ID:
        raise KeyStoreError(f"{path} has the layout {layout}, this release knows layout {LAYOUT}")
    if application or layout or tables:
        raise KeyStoreError(f"{path} is an SQLite file, but holds no keys of Trouper")
    return False


def master_of(database: sqlite3.Connection) -> str:
    """The name of the master key that all keys are wrapped with.

    Raises:
        KeyStoreError: It is not said.
    """
    found = database.execute("SELECT master FROM vault").fetchone()
    if found is None:
        raise KeyStoreError("the file of keys does not name its master key: restore it from a backup")
    name: str = found[0]
    return name


def quoted(path: str) -> str:
    """A path in a URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
