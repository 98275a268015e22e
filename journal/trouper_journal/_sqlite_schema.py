"""The layout of a journal file, and the settings under which it is opened.

Stream names stand once, in ``streams``; a stream's id is the position of its first event, so that no
counter is needed and ids tell the order of creation. What is absent is NULL. Tables with a rowid insert
about four times as fast as those without.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from typing import Final

from trouper_journal._digest import FORMAT
from trouper_journal._errors import JournalBroken, JournalCorrupt, NotAJournal, StorageBusy
from trouper_journal._merkle import EMPTY_RANGE

APPLICATION_ID = 0x54525052
"""Marks the file as a Trouper journal (SQLite header, offset 68)."""

LAYOUT = 1
"""Number of the table layout (SQLite header, ``user_version``)."""

ID_SIZE: Final = 16
"""Bytes of a journal's id."""

_WAL_TRIES = 500
_WAL_PAUSE = 0.01

STREAM_COLUMNS: Final = """
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    label TEXT,
    wake_at INTEGER"""
EVENTS: Final = """\
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    stream_id INTEGER NOT NULL REFERENCES streams (id),
    version INTEGER NOT NULL,
    type TEXT NOT NULL,
    schema INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    key TEXT,
    label TEXT,
    wake_at INTEGER,
    key_id TEXT,
    meta BLOB NOT NULL,
    facts BLOB NOT NULL,
    content BLOB,
    leaf BLOB NOT NULL,
    large INTEGER,
    UNIQUE (stream_id, version)
);
"""
LARGE: Final = """\
CREATE TABLE large (
    digest BLOB NOT NULL,
    domain TEXT NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (digest, domain)
);
"""
"""What an archive has, too, so that whatever reads the one reads the other."""

_TABLES = f"""
CREATE TABLE journal (
    id BLOB NOT NULL,
    format INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    position INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    range BLOB NOT NULL
);
CREATE TABLE streams ({STREAM_COLUMNS}
);
CREATE INDEX streams_label ON streams (label) WHERE label IS NOT NULL;
CREATE INDEX streams_wake ON streams (wake_at) WHERE wake_at IS NOT NULL;
{EVENTS}CREATE TABLE keys (
    name TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL
);
{LARGE}CREATE TABLE snapshots (
    stream_id INTEGER PRIMARY KEY REFERENCES streams (id),
    version INTEGER NOT NULL,
    leaf BLOB NOT NULL,
    fingerprint TEXT NOT NULL,
    state BLOB NOT NULL
);
CREATE TABLE tombstones (
    leaf BLOB PRIMARY KEY
);
"""

# INSERT OR REPLACE deletes the row that stands in its way without firing DELETE triggers, hence the
# triggers on INSERT.
_GUARDS = """
CREATE TRIGGER events_update BEFORE UPDATE ON events BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;
CREATE TRIGGER events_delete BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE leaf = OLD.leaf) BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;
CREATE TRIGGER events_insert BEFORE INSERT ON events
WHEN NEW.position <= (SELECT max(position) FROM events)
    OR NEW.version <= (SELECT max(version) FROM events WHERE stream_id = NEW.stream_id) BEGIN
    SELECT RAISE(ABORT, 'events are immutable');
END;
CREATE TRIGGER keys_update BEFORE UPDATE ON keys BEGIN
    SELECT RAISE(ABORT, 'keys are immutable');
END;
CREATE TRIGGER keys_delete BEFORE DELETE ON keys BEGIN
    SELECT RAISE(ABORT, 'keys are immutable');
END;
CREATE TRIGGER keys_insert BEFORE INSERT ON keys
WHEN EXISTS (SELECT 1 FROM keys WHERE name = NEW.name) BEGIN
    SELECT RAISE(ABORT, 'keys are immutable');
END;
CREATE TRIGGER large_update BEFORE UPDATE ON large BEGIN
    SELECT RAISE(ABORT, 'large values are immutable');
END;
CREATE TRIGGER large_delete BEFORE DELETE ON large
WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE leaf = OLD.digest) BEGIN
    SELECT RAISE(ABORT, 'large values are immutable');
END;
CREATE TRIGGER large_insert BEFORE INSERT ON large
WHEN EXISTS (SELECT 1 FROM large WHERE digest = NEW.digest AND domain = NEW.domain) BEGIN
    SELECT RAISE(IGNORE);
END;
CREATE TRIGGER journal_update BEFORE UPDATE ON journal BEGIN
    SELECT RAISE(ABORT, 'the journal''s identity is immutable');
END;
CREATE TRIGGER journal_delete BEFORE DELETE ON journal BEGIN
    SELECT RAISE(ABORT, 'the journal''s identity is immutable');
END;
CREATE TRIGGER tombstones_update BEFORE UPDATE ON tombstones BEGIN
    SELECT RAISE(ABORT, 'tombstones are immutable');
END;
CREATE TRIGGER tombstones_delete BEFORE DELETE ON tombstones BEGIN
    SELECT RAISE(ABORT, 'tombstones are immutable');
END;
"""


def is_new(database: sqlite3.Connection, path: str) -> bool:
    """Whether the file is empty; refuses what is neither empty nor a journal of this layout.

    Only reads, so that a foreign file is left as it is; in one statement, so that it sees another process's
    creation whole or not at all.

    Raises:
        NotAJournal: It is something else, or of a layout that this release does not know.
    """
    application, layout, tables = database.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application == APPLICATION_ID:
        if layout != LAYOUT:
            raise NotAJournal(
                f"{path} is a journal of layout {layout}, this release knows layout {LAYOUT}: use the release for it"
            )
        return False
    if application or layout or tables:
        raise NotAJournal(f"{path} is an SQLite file but not a Trouper journal: give another path")
    return True


def set_up(database: sqlite3.Connection, path: str, synchronous: str, new_id: bytes, now: int) -> bytes:
    """Create or check the file, and set the writing connection up; the journal's id.

    Raises:
        NotAJournal: The file is something else, or of another layout.
        JournalCorrupt: The file has lost what makes it a journal.
        StorageBusy: Another process keeps the file locked.
        JournalBroken: The file cannot be kept as durably as asked for.
    """
    refuse_second_name(path)
    refuse_orphaned_log(path)
    if is_new(database, path):
        create(database, path, new_id, now)
    for tries_left in reversed(range(_WAL_TRIES)):
        try:
            database.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            # Changing the mode does not wait for another process that opens the file at the same moment.
            if not tries_left:
                raise StorageBusy(f"{path} could not be switched to write-ahead logging: {error}") from error
            time.sleep(_WAL_PAUSE)
    configure(database, synchronous=synchronous, read_only=False)
    return identity(database, path)


def refuse_second_name(path: str) -> None:
    """Refuse a file with several names (hard links): SQLite would keep a log beside each, and ruin the file.

    Raises:
        JournalBroken: It has.
    """
    try:
        names = os.stat(path).st_nlink
    except OSError:
        return
    if names > 1:
        raise JournalBroken(f"{path} has {names} names (hard links), which ruins it: remove the others, or copy it")


def refuse_orphaned_log(path: str) -> None:
    """Refuse a log without its file, which SQLite would throw away, to begin an empty journal.

    Raises:
        JournalCorrupt: The file is missing or empty, and there is a log beside it.
    """
    log = f"{path}-wal"
    # A log is only ever written beside a file that has its tables; another process may just have made them.
    if not _size(path) and _size(log) and not _size(path):
        raise JournalCorrupt(f"{path} is missing or empty, but its log {log} is there: restore the file first")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def identity(database: sqlite3.Connection, path: str) -> bytes:
    """The journal's id.

    Raises:
        JournalCorrupt: It is lost.
        NotAJournal: The journal is of another format.
    """
    row = database.execute("SELECT id, format FROM journal").fetchone()
    if row is None or type(row[0]) is not bytes or len(row[0]) != ID_SIZE:
        raise JournalCorrupt(f"{path} has lost the journal's id: restore the file from a backup")
    if row[1] != FORMAT:
        raise NotAJournal(
            f"{path} is a journal of format {row[1]}, this release knows format {FORMAT}: use the release for it"
        )
    journal_id: bytes = row[0]
    return journal_id


def create(database: sqlite3.Connection, path: str, journal_id: bytes, now: int) -> None:
    """Lay the tables out in one transaction, unless another process has just done so."""
    database.execute("BEGIN IMMEDIATE")
    try:
        if is_new(database, path):
            for statement in statements_of(_TABLES + _GUARDS):
                database.execute(statement)
            database.execute("INSERT INTO journal VALUES (?, ?, ?)", (journal_id, FORMAT, now))
            database.execute("INSERT INTO head VALUES (1, 0, 0, ?)", (EMPTY_RANGE.to_bytes(),))
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {LAYOUT}")
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def table_layout() -> Mapping[str, str]:
    """All tables, indexes and triggers that a journal of this layout has from its beginning, by name."""
    return layout_of(_TABLES + _GUARDS)


def layout_of(script: str) -> dict[str, str]:
    """What a script creates, by name, each on one line, as `plain_sql` gives it."""
    created = [plain_sql(statement) for statement in statements_of(script) if statement.startswith("CREATE")]
    return {statement.split("(")[0].split()[2]: statement for statement in created}


def plain_sql(statement: str) -> str:
    """A statement on one line, without its end."""
    return " ".join(statement.split()).removesuffix(";")


def statements_of(script: str) -> list[str]:
    """Split a script; ``executescript`` would commit the open transaction first."""
    statements: list[str] = []
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            statements.append(part.strip())
            part = ""
    return statements


def configure(database: sqlite3.Connection, *, synchronous: str, read_only: bool) -> None:
    """Set a connection up and make sure that the settings that durability rests on have taken hold.

    Raises:
        JournalBroken: SQLite did not accept one of them (no shared memory, as on network file systems).
    """
    database.execute(f"PRAGMA synchronous = {synchronous}")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("PRAGMA recursive_triggers = ON")
    if read_only:
        database.execute("PRAGMA query_only = ON")
    check_settings(database, synchronous)


def check_settings(database: sqlite3.Connection, synchronous: str) -> None:
    """Refuse to go on where the connection is less durable than promised.

    Raises:
        JournalBroken: ``journal_mode`` or ``synchronous`` is not what was asked for.
    """
    mode = database.execute("PRAGMA journal_mode").fetchone()[0]
    level = database.execute("PRAGMA synchronous").fetchone()[0]
    if mode != "wal" or level != {"FULL": 2, "NORMAL": 1}[synchronous]:
        raise JournalBroken(f"SQLite offers journal_mode {mode} and synchronous {level}, not wal and {synchronous}")
