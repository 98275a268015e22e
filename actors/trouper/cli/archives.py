"""Archives on a command line: which are at hand, and what is said of what is in others.

Whoever asks about something that was archived is told so, and which file to give (`asking_for_the_archive`); whoever
asks about a whole journal is told how much of it was left out (`tell_left_out`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import click
import trio

from trouper.cli.codes import NotFoundError
from trouper.cli.output import Output, styled
from trouper.errors import RecordArchived
from trouper.narration.text import count
from trouper_journal import Journal, Store
from trouper_journal.archive import beside, left_out, open_archive

_ARCHIVES: Final = "trouper.archives"


def with_archives(context: click.Context, _parameter: click.Parameter, given: Sequence[Path]) -> None:
    """Take down which archives are to be read beside the journal that a command opens."""
    context.meta[_ARCHIVES] = given


def given_archives() -> Sequence[Path]:
    """The archives that the command line names."""
    context = click.get_current_context(silent=True)
    given: Sequence[Path] = () if context is None else context.meta.get(_ARCHIVES, ())
    return given


@asynccontextmanager
async def archives_at_hand() -> AsyncIterator[Callable[[Store], Store] | None]:
    """Puts the archives that the command line names beside a journal, for as long as it is open."""
    async with AsyncExitStack() as stack:
        archives = []
        for path in given_archives():
            if not await trio.Path(path).exists():
                raise NotFoundError(f"there is no archive {path}")
            archives.append(await stack.enter_async_context(open_archive(path)))
        yield beside(*archives) if archives else None


@contextmanager
def asking_for_the_archive() -> Iterator[None]:
    """Where what is asked for is in an archive that is not at hand, ask for that.

    Raises:
        NotFoundError: It is.
    """
    try:
        yield
    except RecordArchived as error:
        raise NotFoundError(
            f"{_named(error)} is archived; give the archive with --archive FILE (it was made as {error.file})"
        ) from None


@contextmanager
def nothing_to_be_done() -> Iterator[None]:
    """Where something is to be done to what was archived, say that nothing can.

    Raises:
        NotFoundError: It was.
    """
    try:
        yield
    except RecordArchived as error:
        raise NotFoundError(
            f"{_named(error)} is archived in {error.file}: it is over, and nothing more can be done to it"
        ) from None


def _named(error: RecordArchived) -> str:
    return error.stream.replace("/", " ", 1)


async def tell_left_out(output: Output, journal: Journal, *, after: int = 0) -> bool:
    """Say on standard error how much of a journal is in archives that are not at hand, if anything is.

    Args:
        output: Where to.
        journal: The journal, opened by `opened_to_read`.
        after: The position behind which it was read.

    Returns:
        Whether anything was left out.
    """
    found = await left_out(journal, prefix="run/", after=after)
    if found.records:
        records = f"{count(found.records, 'record')} ({count(found.streams, 'run')})"
        output.note(styled(f"{records} not read: archived; give the archive with --archive FILE", "yellow"))
    return found.records > 0
