"""Commands that look: what they are given is afterwards as it was before, and what is wrong with it is one line."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.cli.program import ROOT, called, complaint, objects, ok_called

from trouper.cli.app import trouper
from trouper_journal import EventRegistry, Journal, event

GOLDEN = ROOT / "tests" / "golden"

LOOKING: dict[str, list[str]] = {
    "runs": ["--all"], "show": ["RUN"], "why": ["RUN"], "diff": ["RUN", "RUN"], "tail": ["--no-follow", "-n", "5"],
    "approvals": [], "sessions": [], "rules": [], "verify": [], "replay": ["--jobs", "1"], "doctor": [],
    "export": [], "prove": ["1"], "spend": [], "restore": [],
}  # fmt: skip
"""Commands that only look, with what they need beside the journal."""


def given_to(verb: str, run: str) -> list[str]:
    return [run if each == "RUN" else each for each in LOOKING[verb]]


def seen(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


def left_behind(folder: Path) -> Path:
    """A journal as a killed program leaves it, with its newest records in the log alone."""
    path = folder / "j.db"
    shutil.copy(GOLDEN / "runs-1.db", source := folder / "source.db")

    async def copy() -> None:
        async with Journal.open(source) as journal, journal.drive("somebody"):
            for ending in ("", "-wal", "-shm"):
                shutil.copy(f"{source}{ending}", f"{path}{ending}")

    trio.run(copy)
    source.unlink()
    (folder / "source.db.lock").unlink()
    return path


@pytest.mark.parametrize("verb", LOOKING)
def test_what_looks_changes_no_byte_of_a_journal_or_beside_it(verb: str, tmp_path: Path) -> None:
    assert verb in trouper.commands
    run = str(objects(ok_called("runs", GOLDEN / "runs-1.db", "--json", "-n", "1"))[0]["run"])
    path = left_behind(tmp_path)
    before = seen(tmp_path)
    assert set(before) == {"j.db", "j.db-wal", "j.db-shm"}
    assert called(verb, path, *given_to(verb, run)).returncode in {0, 1}
    assert seen(tmp_path) == before
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink()
    before = seen(tmp_path)
    assert called(verb, path, *given_to(verb, run)).returncode in {0, 1}
    assert seen(tmp_path) == before


def nothing(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("# notes\n" * 1000)


def theirs(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE theirs (x)")


def newer(statement: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        shutil.copy(GOLDEN / "runs-1.db", path)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("DROP TRIGGER journal_update")
            database.execute(statement)

    return make


def cut(path: Path) -> None:
    path.write_bytes((GOLDEN / "runs-1.db").read_bytes()[:5000])


FOREIGN: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (nothing, "is not a Trouper journal"),
    "text": (text, "is not an SQLite database"),
    "another program's": (theirs, "not a Trouper journal"),
    "newer layout": (newer("PRAGMA user_version = 2"), "is a journal of layout 2, this release knows layout 1"),
    "newer format": (newer("UPDATE journal SET format = 2"), "is a journal of format 2, this release knows format 1"),
    "cut off": (cut, "j.db"),
    "folder": (Path.mkdir, "is not a Trouper journal"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_journal_of_this_release_is_refused_in_one_line_and_left_alone(kind: str, tmp_path: Path) -> None:
    make, message = FOREIGN[kind]
    make(path := tmp_path / "j.db")
    before = seen(tmp_path)
    for verb in LOOKING:
        done = called(verb, path, *given_to(verb, "0"))
        assert done.returncode == 5, (verb, done)
        assert message in complaint(done)
    assert called("backup", path, "--out", tmp_path / "copy.db").returncode == 5
    assert seen(tmp_path) == before


async def from_the_future(path: Path, run: str) -> None:
    @event("run.signalled", schema=99)
    @attrs.frozen
    class Later:
        """An event as only a later release knows it."""

    steps = {("run.signalled", number): lambda facts, content: (facts, content) for number in range(1, 99)}
    async with Journal.open(path, registry=EventRegistry([Later], upcasters=steps)) as journal:
        head = await journal.head(f"run/{run}")
        assert head is not None
        await journal.append(f"run/{run}", [Later()], expected=head.version)


def test_a_newer_event_stops_its_own_run_by_name_and_no_other(tmp_path: Path) -> None:
    path = Path(shutil.copy(GOLDEN / "runs-1.db", tmp_path / "j.db"))
    first, other, *_ = [str(each["run"]) for each in objects(ok_called("runs", path, "--json"))]
    trio.run(from_the_future, path, first)
    assert "self-consistent" in ok_called("verify", path)
    assert "run.signalled (schema 99, unknown to this release)" in ok_called("show", path, first)
    assert called("show", path, other).returncode == 0
    assert "run.signalled schema 99 is newer than 1" in called("doctor", path).stdout
    assert "run.signalled schema 99 is newer than 1" in called("replay", path, first, "--jobs", "1").stdout
    assert called("replay", path, other, "--jobs", "1").returncode == 0
    done = called("cancel", path, first)
    assert done.returncode == 5
    assert "use the release that wrote it" in complaint(done)


RUNS = [str(each["run"]) for each in objects(ok_called("runs", GOLDEN / "runs-1.db", "--json", "-n", "0"))]
WHOLE = (GOLDEN / "runs-1.db").read_bytes()
PAGE = 4096


def swapped(left: int, right: int) -> bytes:
    """The journal with two pages in each other's place."""
    content = bytearray(WHOLE)
    content[left * PAGE : (left + 1) * PAGE] = WHOLE[right * PAGE : (right + 1) * PAGE]
    content[right * PAGE : (right + 1) * PAGE] = WHOLE[left * PAGE : (left + 1) * PAGE]
    return bytes(content)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A journal that was cut, or in which a byte, a page or two pages are not what they were."""
    at = draw(st.integers(0, len(WHOLE) - 1))
    page, other = at // PAGE * PAGE, draw(st.integers(0, len(WHOLE) // PAGE - 1)) * PAGE
    content = bytearray(WHOLE)
    match draw(st.sampled_from(["cut", "flip", "zero", "swap"])):
        case "cut":
            return WHOLE[:at]
        case "flip":
            content[at] ^= 1 << draw(st.integers(0, 7))
        case "zero":
            content[page : page + PAGE] = bytes(PAGE)
        case _:
            return swapped(page // PAGE, other // PAGE)
    return bytes(content)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=damaged(), verb=st.sampled_from(sorted(LOOKING)), run=st.sampled_from(RUNS))
@example(content=swapped(58, 68), verb="doctor", run=RUNS[0])  # rows that lead back
def test_whatever_is_damaged_is_told_in_good_order(content: bytes, verb: str, run: str, tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    path.write_bytes(content)
    done = called(verb, path, *given_to(verb, run))
    assert done.returncode in {0, 1, 3, 5}, done.stderr
    if done.returncode == 5:
        assert complaint(done)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"j.db": content}
