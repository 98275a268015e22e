"""Opening journals and finding what is meant in them."""

from __future__ import annotations

import datetime as dt
import json
import os
import pwd
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import trio

from trouper.cli.archives import archives_at_hand, asking_for_the_archive, given_archives, nothing_to_be_done
from trouper.cli.codes import NotFoundError, UsageError
from trouper.cli.command import KEYS
from trouper.cli.damage import past_damage
from trouper.core.events import REGISTRY, Principal
from trouper.errors import ArgumentsError, NotAJournal, UnknownEvent, UnknownRun
from trouper.tools import parse_arguments
from trouper_journal import Holder, Journal, JournalCorrupt, Record, StorageReadOnly, StreamHead, Value
from trouper_journal._sqlite_reading import ReadOnlyFile
from trouper_journal.archive import is_archive, open_archive, refuse_archived

if TYPE_CHECKING:
    from trouper_journal.sealing import KeyStore

_SHOWN = 4
_ACTION: Final = re.compile(r"[^/]+/[0-9]+\.[0-9]+")


@asynccontextmanager
async def opened(path: Path, *, with_archived: bool = False) -> AsyncIterator[Journal]:
    """Open a journal that is there already, beside whoever drives it.

    Args:
        path: The journal.
        with_archived: Whether what is done concerns what was archived, too: then archives may be named.

    Raises:
        NotFoundError: There is no such file; none is created. Or what something is to be done to was archived.
        UsageError: An archive is named where there is nothing to be done to what is in it, or in the journal's place.
        JournalError: It cannot be opened.
    """
    check_whole(path)
    if given_archives() and not with_archived:
        raise UsageError("--archive is for looking: what was archived is over, and nothing more can be done to it")
    await trio.to_thread.run_sync(_check_writable, path)
    async with (
        archives_at_hand() as wrap,
        Journal.open(path, registry=REGISTRY, keys=keys_of(path), wrap=wrap) as journal,
    ):
        with asking_for_the_archive() if with_archived else nothing_to_be_done():
            yield journal


def _check_writable(path: Path) -> None:
    """Refuse what cannot be changed before anything is opened for writing, which would leave files beside it.

    Raises:
        JournalError: It is no journal, or cannot be read or written to.
    """
    with ReadOnlyFile(str(path.resolve())) as file:
        file.open()
    for place in (path.resolve(), path.resolve().parent):
        if not os.access(place, os.W_OK):
            raise StorageReadOnly(f"{place} cannot be written to: you have no permission to")


@asynccontextmanager
async def opened_to_read(path: Path, *, whole: bool = False) -> AsyncIterator[Journal]:
    """Open a journal that is there already, beside whoever drives it, without writing a byte to it or beside it.

    An archive is opened in the same way, and reads like a journal of which only a part is there. Reading either ends at
    the first damaged place, unless the command line says ``--keep-going``.

    Args:
        path: The journal.
        whole: Whether a part of a journal is not enough.

    Raises:
        UsageError: It is an archive, and the whole journal is needed.
        NotFoundError: There is no such file. What is asked for was archived, and that archive is not at hand.
        JournalError: It cannot be read.
    """
    (check_whole if whole else check_there)(path)
    if is_archive(path):
        async with (
            open_archive(path) as archive,
            Journal.over(archive, checked=True, registry=REGISTRY, keys=keys_of(path, read_only=True)) as journal,
        ):
            yield past_damage(journal)
        return
    async with (
        archives_at_hand() as wrap,
        Journal.open(path, registry=REGISTRY, read_only=True, keys=keys_of(path, read_only=True), wrap=wrap) as journal,
    ):
        with asking_for_the_archive():
            yield past_damage(journal)


def keys_of(journal: Path, *, made: bool = False, read_only: bool = False) -> KeyStore | None:
    """The keys to a journal: those that the command line names, else those beside it; None where there are none.

    Args:
        journal: The journal.
        made: Whether a file that is named, and not there, is made with the first key.
        read_only: Whether nothing is written to it.

    Raises:
        NotFoundError: A file that was named is not there.
    """
    context = click.get_current_context(silent=True)
    file, master = context.meta.get(KEYS, (None, None)) if context is not None else (None, None)
    if not made:
        check_master_key(master)
    if file is None:
        file = Path(f"{journal}.keys")
        if not file.exists():
            return None
    elif not made and not file.exists():
        raise NotFoundError(f"there is no file of keys {file}")
    from trouper_journal.sealing import FileKeyStore

    return FileKeyStore(file, master, read_only=read_only)


def check_master_key(file: Path | None) -> None:
    """Look whether a master key that the command line names is there.

    Raises:
        NotFoundError: It is not.
    """
    if file is not None and not file.exists():
        raise NotFoundError(f"there is no master key {file}")


def check_whole(path: Path) -> None:
    """Refuse what cannot be a journal, or is only a part of one.

    Raises:
        UsageError: It is an archive.
        NotFoundError, NotAJournal: As `check_there`.
    """
    check_there(path)
    if is_archive(path):
        raise UsageError(f"{path} is an archive, which is a part of a journal: this command needs the journal itself")


def check_there(path: Path) -> None:
    """Refuse what cannot be a journal.

    Raises:
        NotFoundError: There is no such file.
        NotAJournal: It is empty, or no file.
    """
    if not path.exists():
        raise NotFoundError(f"there is no journal {path}")
    if path.is_dir():
        raise NotAJournal(f"{path} is a folder, which is not a Trouper journal: give the file in it")
    if not path.is_file() or path.stat().st_size == 0:
        raise NotAJournal(f"{path} is not a Trouper journal")


def driven(path: Path) -> bool | None:
    """Whether a living process drives a journal; None where this machine cannot tell.

    The side file is read and not locked: to try its lock would turn away a daemon that starts at this very moment.
    """
    try:
        written = json.loads(Path(f"{path.resolve()}.lock").read_bytes() or b"null")
        holder = None if written is None else Holder(**written)
        if holder is None:
            return False
        if holder.host != socket.gethostname():
            return None
        os.kill(holder.pid, 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except PermissionError as error:
        # Somebody else's process lives; a side file of somebody else's tells nothing.
        return None if error.filename else True
    except (OSError, ValueError, TypeError, OverflowError):
        return None
    return True


async def find_run(journal: Journal, given: str) -> str:
    """The id of the run that an id, or the beginning of one, stands for.

    Raises:
        UnknownRun: No run's id begins so.
        UsageError: Several do.
        RecordArchived: It is in an archive that is not at hand.
    """
    run = await find_listed_run(journal, given)
    await refuse_archived(journal, f"run/{run}")
    return run


async def find_listed_run(journal: Journal, given: str) -> str:
    """As `find_run`, also where the run is in an archive that is not at hand."""
    for name in dict.fromkeys((given, given.upper())):
        found: list[str] = []
        async for head in journal.streams(prefix=f"run/{name}"):
            run = head.stream.removeprefix("run/")
            if run == name:
                return run
            # A sub-agent's run is meant only where so much of its id is given.
            if "~" in run[len(name) :]:
                continue
            found.append(run)
            if len(found) > _SHOWN:
                break
        if len(found) == 1 and name:
            return found[0]
        if found:
            more = ", ..." if len(found) > _SHOWN else ""
            raise UsageError(f"{given!r} may be any of the runs {', '.join(found[:_SHOWN])}{more}: give more of it")
    run, _, call = given.partition("/")
    hint = (
        f"; to name a run, leave out the call behind it: {run}" if run and call.replace(".", "", 1).isdecimal() else ""
    )
    raise UnknownRun(f"there is no run {given} in this journal{hint}")


def is_call(given: str) -> bool:
    """Whether a text has the form of a call's id."""
    return _ACTION.fullmatch(given) is not None


def call_id(_context: click.Context | None, _parameter: click.Parameter | None, given: str) -> str:
    """The id of a call, as a command line gives it; what cannot be one is refused before any journal is opened.

    Raises:
        click.BadParameter: It has not the form of one.
    """
    if not is_call(given):
        raise click.BadParameter(
            f"{given!r} does not name a call. A call is named by its run and two numbers, RUN/1.0 for example, "
            "as `trouper approvals` and `trouper show` print it."
        )
    return given


async def find_action(journal: Journal, given: str) -> str:
    """The full id of a call whose run may be given by the beginning of its id.

    Raises:
        UnknownRun, UsageError, RecordArchived: As `find_run`. (That the run has such a call, the command itself finds.)
    """
    run, _, call = given.rpartition("/")
    return f"{await find_run(journal, run)}/{call}"


async def record_at(journal: Journal, head: StreamHead, version: int) -> Record:
    """A record of a stream that is listed.

    Raises:
        JournalCorrupt: It is not there, though the index says so.
    """
    page = await journal.read_page(head.stream, after=version - 1, limit=1)
    if not page:
        raise JournalCorrupt(f"{head.stream} is listed and has no record {version}: `trouper verify` tells more")
    return page[0]


def event_of(journal: Journal, record: Record) -> object | None:
    """The event in a record; None where this release does not know it."""
    try:
        return journal.registry.decode(record)
    except UnknownEvent:
        return None


def system_user() -> str:
    """The operating system's name for whoever runs this process; not the environment's, which anybody can set."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def person(name: str | None) -> Principal:
    """Who gives a command: a name that is only asserted, through a user whom the operating system knows.

    Raises:
        UsageError: The name is empty.
    """
    user = system_user()
    if name is not None and not name.strip():
        raise UsageError("--as needs a name")
    return Principal(name or user, "person", f"os-user:{user}", "asserted")


def until_moment(given: str, also: str = "") -> dt.datetime:
    """The moment that ``--until`` names; ``also`` says what else may stand there, for the error."""
    try:
        found = dt.datetime.fromisoformat(given)
    except ValueError:
        raise UsageError(f"--until: {given!r} is not a moment in ISO 8601, such as 2027-01-31T12:00Z{also}") from None
    if found.utcoffset() is None:
        raise UsageError(f"--until: {given!r} has no time zone; in UTC it is {found:%Y-%m-%dT%H:%M:%S}Z")
    return found


def json_arguments(option: str, given: str) -> dict[str, Value]:
    """The arguments that an option gives.

    Raises:
        UsageError: It is no JSON object that gives each name once.
    """
    try:
        # The rule for what a model sends holds for what a person sends: no name twice, no number that is none.
        arguments = parse_arguments(given)
    except ArgumentsError:
        arguments = {}
    if not arguments and given.strip() != "{}":
        raise UsageError(f"{option}: {given!r} is not a JSON object that gives each name once")
    return arguments
