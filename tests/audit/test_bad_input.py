"""Bad evidence: every command that reads it says in one line what is wrong with it, and leaves it as it was."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trio
from attrs import frozen
from tests.audit.tampering import tampered
from tests.cli.program import called, complaint, objects, ok_called
from tests.golden.found import FOLDER

from trouper_journal import Journal

GOLDEN = FOLDER / "runs-1.db"
WHOLE = GOLDEN.read_bytes()
PAGE = 4096
RUNS = [str(each["run"]) for each in objects(ok_called("runs", GOLDEN, "--json", "-n", "0"))]
RUN = RUNS[0]
LAST_OF_RUN = 37
END = 1012
SESSION = str(objects(ok_called("sessions", GOLDEN, "--json"))[0]["session"])
NOBODY = 65534

READING: dict[str, list[str]] = {
    "runs": ["--all"],
    "sessions": [],
    "show": ["RUN"],
    "tail": ["--no-follow", "-n", "2000", "--json"],
    "approvals": [],
    "rules": [],
    "why": ["RUN"],
    "diff": ["RUN", "OTHER"],
    "spend": [],
    "replay": ["--jobs", "1"],
    "verify": ["--jobs", "1"],
    "doctor": [],
    "prove": ["5"],
    "checkpoint": ["--key", "KEY", "--out", "ASIDE/checkpoints"],
    "backup": ["--out", "ASIDE/backup.db"],
    "export": [],
    "export html": ["--format", "html", "--run", "RUN"],
    "export bundle": ["--format", "bundle", "--run", "RUN", "--out", "ASIDE/bundle.zip"],
    "export session": ["--session", SESSION, "--redact", "--raw"],
}
"""Commands that only read a journal, with what they need beside it."""

GOING_ON = (
    "runs",
    "sessions",
    "show",
    "tail",
    "approvals",
    "rules",
    "why",
    "diff",
    "spend",
    "replay",
    "export",
    "export html",
)
"""Those that can read on behind what is damaged."""

CHANGING: dict[str, list[str]] = {
    "archive": ["--out", "ASIDE/archive.db", "--run", "RUN", "--as", "maria"],
    "erase": ["--run", "RUN", "--as", "maria", "--reason", "asked for"],
}
"""Commands that change a journal, and not one that they cannot open."""

Seen = dict[str, tuple[bytes | None, int]]


@pytest.fixture(scope="module")
def aside() -> Iterator[Path]:
    """Where commands put what they make; for everybody, as a test gives up what root may do."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        ok_called("keygen", folder / "key", "--name", "example.com/desk")
        for command in READING:
            # Each loads what it needs, which whoever has no permissions may not.
            Asked(command, GOLDEN, folder).check({0, 1})
        if os.getuid() == 0:
            os.chown(folder / "key", NOBODY, -1)
        yield folder


@pytest.fixture
def place() -> Iterator[Path]:
    """The folder of the evidence, which anybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name)).chmod(0o777)
        yield folder
        folder.chmod(0o777)


def seen(folder: Path) -> Seen:
    """Names, bytes and times of change of all that is in a folder, and of the folder."""
    files = {
        path.name: (path.read_bytes() if path.is_file() else None, path.stat().st_mtime_ns) for path in folder.iterdir()
    }
    return {**files, ".": (None, folder.stat().st_mtime_ns)}


@contextmanager
def without_privileges() -> Iterator[None]:
    """As a user whom permissions bind; root is bound by none."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture(autouse=True)
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place for private copies, where anybody may make them."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield
        assert list(Path(name).iterdir()) == []


class Asked:
    """A command, asked about a journal."""

    def __init__(self, name: str, path: Path, aside: Path, *options: str) -> None:
        for made in aside.iterdir():
            if not made.name.startswith("key"):
                made.unlink()
        words = {"RUN": RUN, "OTHER": RUNS[1], "KEY": str(aside / "key")}
        given = [words.get(each, each.replace("ASIDE", str(aside))) for each in {**READING, **CHANGING}[name]]
        self.name = name
        done = called(name.split(maxsplit=1)[0], path, *given, *options)
        self.code, self.err, self.out = done.returncode, done.stderr, done.stdout
        self.done = done

    def check(self, codes: set[int]) -> None:
        """One of these exit codes, and one line about an error; never a traceback."""
        assert self.code in codes, (self.name, self.code, self.err)
        assert "Traceback" not in self.err + self.out, (self.name, self.err)
        if self.code > 1:
            assert complaint(self.done), self.name


# ---- what is no journal, or cannot be opened


def missing(path: Path) -> None:
    """Nothing is there."""


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("# notes\n" * 1000)


def zeros(path: Path) -> None:
    path.write_bytes(bytes(8 * PAGE))


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE theirs (x)")


def namesakes(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE events (x)")
        database.execute("CREATE TABLE journal (y)")


def newer(statement: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(WHOLE)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("DROP TRIGGER journal_update")
            database.execute(statement)

    return make


def unreadable(path: Path) -> None:
    path.write_bytes(WHOLE)
    path.chmod(0)


def cut(at: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(WHOLE[:at])

    return make


NO_JOURNAL: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "missing": (missing, 3, "there is no journal"),
    "empty": (empty, 5, "is not a Trouper journal"),
    "folder": (Path.mkdir, 5, "is not a Trouper journal"),
    "text": (text, 5, "is not an SQLite database"),
    "zeros": (zeros, 5, "is not"),
    "another program's": (foreign, 5, "not a Trouper journal"),
    "another program's, with our tables' names": (namesakes, 5, "not a Trouper journal"),
    "newer layout": (newer("PRAGMA user_version = 2"), 5, "is a journal of layout 2, this release knows layout 1"),
    "newer format": (newer("UPDATE journal SET format = 2"), 5, "is a journal of format 2, this release knows"),
    "no permission": (unreadable, 5, "cannot be read"),
    "cut in the header": (cut(50), 5, "j.db"),
    "cut behind the header": (cut(100), 5, "j.db"),
    "cut in the second page": (cut(PAGE + 904), 5, "j.db"),
}


@pytest.mark.parametrize("kind", NO_JOURNAL)
def test_what_cannot_be_opened_is_refused_in_one_line_and_left_as_it_is(kind: str, place: Path, aside: Path) -> None:
    make, code, message = NO_JOURNAL[kind]
    make(path := place / "j.db")
    before = seen(place)
    for name in (*READING, *CHANGING):
        with without_privileges():
            asked = Asked(name, path, aside)
        asked.check({code})
        assert message in asked.err, (name, asked.err)
        assert seen(place) == before, name
        assert {each.name for each in aside.iterdir()} == {"key", "key.pub"}, name


# ---- evidence that is whole, in all the ways in which it may lie there


async def _copied(source: Path, path: Path, endings: tuple[str, ...]) -> None:
    async with Journal.open(source) as journal, journal.drive("somebody"):
        for ending in ("", *endings):
            shutil.copy(f"{source}{ending}", f"{path}{ending}")


def copied(path: Path, *endings: str) -> None:
    """A copy of a journal that is in use, with these of the files beside it; its newest record is in the log."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(GOLDEN, source := Path(name) / "j.db")
        trio.run(_copied, source, path, endings)


def alone(path: Path) -> None:
    path.write_bytes(WHOLE)


def with_an_empty_log(path: Path) -> None:
    path.write_bytes(WHOLE)
    Path(f"{path}-wal").touch()


WAYS: dict[str, Callable[[Path], None]] = {
    "alone": alone,
    "with log and index": lambda path: copied(path, "-wal", "-shm"),
    "with its log alone": lambda path: copied(path, "-wal"),
    "with an empty log": with_an_empty_log,
}


@pytest.mark.parametrize("sealed_off", [False, True], ids=["writable", "read-only"])
@pytest.mark.parametrize("way", WAYS)
def test_no_command_that_reads_changes_anything_however_the_evidence_lies(
    way: str, sealed_off: bool, place: Path, aside: Path
) -> None:
    WAYS[way](path := place / "j.db")
    for each in place.iterdir():
        each.chmod(0o444 if sealed_off else 0o666)
    place.chmod(0o555 if sealed_off else 0o777)
    before = seen(place)
    for name in READING:
        with without_privileges():
            asked = Asked(name, path, aside)
        asked.check({0, 1} if name in {"diff", "doctor"} else {0})
        assert seen(place) == before, name


def test_a_private_copy_that_cannot_be_made_is_said_in_one_line(
    place: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(path := place / "j.db", "-wal")
    monkeypatch.setattr(tempfile, "tempdir", str(place / "none"))
    asked = Asked("runs", path, aside)
    asked.check({5})
    assert "could not be copied to" in asked.err


def test_a_copy_without_its_log_is_not_taken_for_whole(place: Path, aside: Path) -> None:
    copied(path := place / "j.db")
    before = seen(place)
    for name in READING:
        Asked(name, path, aside).check({0, 1, 5})
        assert seen(place) == before, name


# ---- rows that are not what they were

_STREAM = f"(SELECT id FROM streams WHERE name = 'run/{RUN}')"
_OF_RUN = frozenset({"show", "why", "diff", "replay", "export html", "export bundle"})
_OF_ALL = frozenset({"tail", "spend", "replay", "verify", "doctor", "backup", "export", "export html", "export bundle"})
_LISTING = frozenset({"runs", "sessions", "approvals"})


@frozen
class Rows:
    """A change of rows.

    Attributes:
        statements: What is done.
        position: The first bad position, as the commands name it.
        met: Commands that read what was changed.
        asked: Commands that are asked.
    """

    statements: tuple[str, ...]
    position: int | str
    met: frozenset[str] = _OF_RUN | _OF_ALL
    asked: Sequence[str] = tuple(READING)


_SOME = ("show", "tail", "why", "spend", "replay", "verify", "export")


def at_5(change: str, asked: Sequence[str] = _SOME) -> Rows:
    """Another cell of one record; of kinds that are met alike, some commands are enough."""
    return Rows((f"UPDATE events SET {change} WHERE position = 5",), 5, asked=asked)


_AS_5 = "(SELECT meta, facts, content, leaf, type FROM events WHERE position = 5)"

ROWS: dict[str, Rows] = {
    "removed": Rows(("DELETE FROM events WHERE position = 5",), 5),
    "several removed": Rows(("DELETE FROM events WHERE position BETWEEN 5 AND 8",), 5),
    "last of a run removed": Rows((f"DELETE FROM events WHERE position = {LAST_OF_RUN}",), LAST_OF_RUN),
    "last removed": Rows((f"DELETE FROM events WHERE position = {END}",), END, _OF_ALL),
    "swapped": Rows(
        (
            "UPDATE events SET position = -5 WHERE position = 5",
            "UPDATE events SET position = 5 WHERE position = 6",
            "UPDATE events SET position = 6 WHERE position = -5",
        ),
        5,
        _OF_ALL,
    ),
    "duplicated": Rows(
        (f"UPDATE events SET (meta, facts, content, leaf, type) = {_AS_5} WHERE position = 6",), 6, _OF_ALL
    ),
    "facts": at_5("facts = substr(facts, 1, length(facts) - 1)", tuple(READING)),
    "meta": at_5("meta = x'c1'"),
    "content": at_5("content = x'ff'"),
    "digest": at_5("leaf = zeroblob(32)"),
    "short digest": at_5("leaf = x'00'"),
    "type": at_5("type = 'no.such'"),
    "time": at_5("recorded_at = 9223372036854775807"),
    "a label": at_5("label = 'forged'"),
    "text for bytes": at_5("facts = 'text'", tuple(READING)),
    "text for meta": at_5("meta = 'text'"),
    "text for a digest": at_5("leaf = 'text'"),
    "numbers for bytes": at_5("facts = 7, content = 8"),
    "bytes for a type": at_5("type = x'ff00'"),
    "text that is no text": at_5("type = CAST(x'ff' AS TEXT)"),
    "bytes for a time": at_5("recorded_at = x'ff00'"),
    "bytes for a version": at_5("version = x'ff00'"),
    "a negative schema": at_5("schema = -7"),
    "first of a run removed": Rows((f"DELETE FROM events WHERE stream_id = {_STREAM} AND version = 1",), 2),
    "all of a run removed": Rows((f"DELETE FROM events WHERE stream_id = {_STREAM}",), 2),
    "stream removed": Rows((f"DELETE FROM streams WHERE id = {_STREAM}",), 2, _OF_RUN | _OF_ALL | _LISTING),
    "bytes for a stream's name": Rows(
        (f"UPDATE streams SET name = x'fffe' WHERE id = {_STREAM}",), 2, _OF_RUN | _OF_ALL | _LISTING
    ),
    "text for a stream's version": Rows(
        (f"UPDATE streams SET version = 'x' WHERE id = {_STREAM}",), 2, _OF_RUN | _LISTING | {"verify", "doctor"}
    ),
    "bytes for a stream's label": Rows(
        (f"UPDATE streams SET label = x'ff' WHERE id = {_STREAM}",), 2, _OF_RUN | _LISTING | {"verify", "doctor"}
    ),
    "a head that is no number": Rows(("UPDATE head SET position = ''",), "the journal's head", _OF_ALL | _LISTING),
    "a head before the beginning": Rows(("UPDATE head SET position = -7",), -7, _OF_ALL - {"replay"}),
}


def changed(path: Path, kind: str) -> None:
    path.write_bytes(WHOLE)
    for statement in ROWS[kind].statements:
        assert tampered(path, statement), statement


@pytest.mark.parametrize("kind", ROWS)
def test_rows_that_were_changed_are_named_and_left_as_they_are(kind: str, place: Path, aside: Path) -> None:
    changed(path := place / "j.db", kind)
    before = seen(place)
    for name in ROWS[kind].asked:
        asked = Asked(name, path, aside)
        asked.check({0, 1, 5})
        assert seen(place) == before, name
        if name in ROWS[kind].met:
            assert asked.code in {1, 5}, (name, asked.err)
            assert str(ROWS[kind].position) in asked.out + asked.err, (name, asked.out, asked.err)
    for name in CHANGING:
        Asked(name, path, aside).check({0, 1, 3, 4, 5})


# One of each that is met in another way.
PASSED = [
    "removed",
    "several removed",
    "last of a run removed",
    "last removed",
    "swapped",
    "facts",
    "text for bytes",
    "text that is no text",
    "bytes for a version",
    "first of a run removed",
    "all of a run removed",
    "stream removed",
    "bytes for a stream's name",
    "bytes for a stream's label",
]


@pytest.mark.parametrize("kind", PASSED)
def test_other_runs_can_be_read_behind_what_is_damaged(kind: str, place: Path, aside: Path) -> None:
    changed(path := place / "j.db", kind)
    before = seen(place)
    for name in GOING_ON:
        asked = Asked(name, path, aside, "--keep-going")
        assert asked.code in ({1, 3} if name in ROWS[kind].met else {0, 1}), (name, asked.code, asked.err)
        assert "Traceback" not in asked.err
        assert seen(place) == before, name
        if name in ROWS[kind].met:
            assert str(ROWS[kind].position) in asked.out + asked.err, (name, asked.out, asked.err)
    shown = called("show", path, RUNS[1], "--keep-going")
    assert shown.stdout == ok_called("show", GOLDEN, RUNS[1]).replace(str(GOLDEN), str(path))


# ---- bytes that are not what they were

CUTS = sorted({*range(0, len(WHOLE), len(WHOLE) // 4), PAGE, len(WHOLE) - 1, len(WHOLE) - PAGE} - {0})
FLIPS = sorted({0, 17, 18, 19, 27, 52, 60, 95, 100, 101, 105, *range(PAGE, len(WHOLE), len(WHOLE) // 5)})


def flipped(at: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        content = bytearray(WHOLE)
        content[at] ^= 0xFF
        path.write_bytes(content)

    return make


BYTES = {f"cut at {at}": cut(at) for at in CUTS} | {f"flipped at {at}": flipped(at) for at in FLIPS}


@pytest.mark.parametrize("kind", BYTES)
def test_bytes_that_were_changed_end_no_command_in_disorder(kind: str, place: Path, aside: Path) -> None:
    BYTES[kind](path := place / "j.db")
    before = seen(place)
    for name in READING:
        asked = Asked(name, path, aside)
        asked.check({0, 1, 3, 5})
        if kind.startswith("cut"):
            assert asked.code in {1, 5} or name not in _OF_ALL - {"replay"}, (name, asked.out)
        assert seen(place) == before, name
    if kind.startswith("cut") and int(kind.rsplit(maxsplit=1)[-1]) > len(WHOLE) * 0.8:
        assert ok_called("show", path, RUN) == ok_called("show", GOLDEN, RUN).replace(str(GOLDEN), str(path))


# ---- no journal at hand


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_and_schema_need_no_journal(shell: str) -> None:
    assert ok_called("completion", shell)
    assert ok_called("schema", "verify")
    assert called("schema", "no-such").returncode in {2, 3}
    assert called("completion", "no-such").returncode == 2
