"""Folds single streams again, from their records alone: no snapshot, no agent, no tool, no network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from attrs import frozen

from trouper.audit.elsewhere import Elsewhere, broken
from trouper.audit.kinship import Discord, discord, lost_child
from trouper.audit.promises import Plan
from trouper.audit.replay_report import ProblemKind, ReplayProblem, StreamReplay, facts_of, step_problem
from trouper.core.definition import define
from trouper.core.events import REGISTRY, ActionPlanned, ActionReplanned, ChildStarted, DefinitionRecorded
from trouper.core.evolve import evolve
from trouper.core.family import parent_of
from trouper.core.replay import difference, not_compared
from trouper.core.rule_events import APPROVALS
from trouper.core.rules import Book, evolve_book
from trouper.core.session import Standing
from trouper.core.state import RunState
from trouper.errors import JournalCorrupt, JournalError, UnknownEvent
from trouper.narration.plain import fields
from trouper_journal import Archived, Erased, Journal, Record, RecordArchived
from trouper_journal._sqlite_inline import open_inline
from trouper_journal._sqlite_read_only import ReadOnlySQLiteStore
from trouper_journal.archive import ArchivedStore, ArchiveStore, beside, open_archive

if TYPE_CHECKING:
    from trouper_journal.sealing import KeyStore

RUN: Final = "run/"


@frozen
class Files:
    """What a replay reads, by name, so that any process can open it.

    Attributes:
        journal: The journal's file, or that of an archive.
        archives: Archives of it that are at hand.
        alone: Whether it is an archive by itself.
        keys: File of keys to what is sealed, and that of the master key; None for no keys.
    """

    journal: str
    archives: Sequence[str] = ()
    alone: bool = False
    keys: tuple[str, str] | None = None

    def key_store(self) -> KeyStore | None:
        """The keys."""
        if self.keys is None:
            return None
        # Loaded here alone: it brings the cipher with it.
        from trouper_journal.sealing import FileKeyStore

        return FileKeyStore(*self.keys, read_only=True)


def files_of(journal: Journal) -> Files:
    """The files that an opened journal is read from: nothing is looked for in them, which would give up their locks.

    Keys are named where they are in files.
    """
    store, archives, keys = journal.store, list[str](), _in_files(journal.keys)
    if isinstance(store, ArchivedStore):
        archives, store = [archive.path for archive in store.archives], store.inner
    if isinstance(store, ArchiveStore):
        return Files(store.path, alone=True, keys=keys)
    # Where a private copy of the file is read, that one is read by whoever opens these files, too.
    return Files(store.source if isinstance(store, ReadOnlySQLiteStore) else str(journal.path), archives, keys=keys)


def _in_files(keys: KeyStore | None) -> tuple[str, str] | None:
    if keys is None:
        return None
    from trouper_journal.sealing import FileKeyStore

    return (keys.path, keys.master_path) if isinstance(keys, FileKeyStore) and keys.in_files else None


@asynccontextmanager
async def open_beside(files: Files, keys: KeyStore | None = None) -> AsyncIterator[Journal]:
    """A journal for reading much of it, with the archives that records may have gone to, and keys to what is sealed.

    Or an archive by itself, in the journal's place.

    Args:
        files: Where they are.
        keys: The keys, where they are not in files.

    Raises:
        ArchiveRefused: One of the archives is another journal's.
        JournalError, OSError: One of the files cannot be opened.
    """
    async with AsyncExitStack() as stack:
        if files.alone:
            alone = await stack.enter_async_context(open_archive(files.journal))
            over = Journal.over(alone, checked=True, registry=REGISTRY, keys=keys or files.key_store())
            yield await stack.enter_async_context(over)
            return
        at_hand = [await stack.enter_async_context(open_archive(archive)) for archive in files.archives]
        wrap = beside(*at_hand) if at_hand else None
        inline = open_inline(files.journal, REGISTRY, keys=keys or files.key_store(), wrap=wrap)
        yield await stack.enter_async_context(inline)


async def refold(journal: Journal, stream: str, elsewhere: Elsewhere) -> StreamReplay:
    """Fold a stream again, and compare what can be compared.

    Of a run: whether today's rules take the recorded steps, whether its calls were planned as its definition has it,
    whether the history that it started from is what was pinned, and whether the run that called it, and those that it
    called, say the same. Of a definition: whether the document has its
    digest. Of other streams: whether their events can be read and stand where they belong. A stream that was archived,
    and whose archive is not at hand, is left alone.

    Raises:
        StorageBusy, JournalBroken: The storage cannot be read; damage that it reports is a finding instead.
    """
    fold = _RunFold(stream.removeprefix(RUN)) if _is_run(stream) else _OtherFold(stream)
    try:
        async for record in journal.read(stream):
            if isinstance(record, Archived):
                return StreamReplay(stream, 0, None, "archived", facts_of(RunState("")) if _is_run(stream) else None)
            fold.problem = _take(journal, fold, record)
            if fold.problem is not None:
                break
            fold.version = record.version
            if isinstance(fold, _RunFold) and fold.planned is not None and fold.difference is None:
                fold.difference = await _promise(fold.planned, record, elsewhere)
    except JournalCorrupt as error:
        fold.problem = ReplayProblem("corrupt", stream, None, error.position, str(error))
    if isinstance(fold, _OtherFold):
        return StreamReplay(stream, fold.version, fold.problem)
    problem, not_compared = fold.problem or fold.difference, fold.not_compared
    if problem is None:
        try:
            problem = await _history(fold.state, elsewhere) or await _kin(fold, elsewhere)
        except RecordArchived:
            not_compared = not_compared or "archived"
    return StreamReplay(stream, fold.version, problem, not_compared, facts_of(fold.state))


def _is_run(stream: str) -> bool:
    return stream.startswith(RUN)


class _RunFold:
    def __init__(self, run: str) -> None:
        self.state = RunState(run)
        self.version = 0
        self.problem: ReplayProblem | None = None
        self.difference: ReplayProblem | None = None
        self.not_compared: str | None = None
        self.planned: tuple[RunState, Plan] | None = None
        self.ending: RunState | None = None
        self.began: list[tuple[Record, ChildStarted]] = []

    def take(self, record: Record, event: object) -> ProblemKind | None:
        if self.difference is None and self.not_compared is None:
            found = difference(self.state, event)
            if found is not None:
                self.difference = step_problem(record, found)
        self.planned = (self.state, event) if isinstance(event, ActionPlanned | ActionReplanned) else None
        self.state = evolve(self.state, event)
        self.not_compared = not_compared(self.state)
        if self.ending is None and self.state.ended:
            self.ending = self.state
        if isinstance(event, ChildStarted):
            self.began.append((record, event))
        return None


class _OtherFold:
    def __init__(self, stream: str) -> None:
        self.version = 0
        self.problem: ReplayProblem | None = None
        self._prefix, _, self._name = stream.partition("/")
        self._book = Book()
        self._approvals = stream == APPROVALS
        self._turns = 0

    def take(self, _: Record, event: object) -> ProblemKind | None:
        if self._approvals:
            self._book = evolve_book(self._book, event)
        elif self._prefix == "session":
            return self._session(event)
        elif isinstance(event, DefinitionRecorded):
            return self._definition(event)
        return None

    def _session(self, event: object) -> ProblemKind | None:
        standing = getattr(event, "standing", None)
        if not isinstance(standing, Standing):
            return "fold"
        # Every event says where the session stands after it: turns are asked for one by one, and never taken back.
        turns = standing.turns
        if turns not in {self._turns, self._turns + 1}:
            return "fold"
        self._turns = turns
        return None

    def _definition(self, event: DefinitionRecorded) -> ProblemKind | None:
        document = event.document
        if isinstance(document, Erased):
            return None
        contract, prose = document.get("contract"), document.get("prose")
        if not isinstance(contract, dict) or not isinstance(prose, dict):
            return "definition"
        found = define(contract, prose)
        same = (found.digest, found.contract_digest, found.prose_digest) == (self._name, event.contract, event.prose)
        return None if same else "definition"


_SAYS: Final[dict[ProblemKind, Callable[[Record], str]]] = {
    "fold": lambda record: f"{record.type} cannot stand at version {record.version} of {record.stream}",
    "definition": lambda record: f"the document does not have the digest that its stream {record.stream} is named by",
}


def _take(journal: Journal, fold: _RunFold | _OtherFold, record: Record) -> ReplayProblem | None:
    def problem(kind: ProblemKind, message: str) -> ReplayProblem:
        return ReplayProblem(kind, record.stream, record.version, record.position, message)

    if record.version != fold.version + 1:
        return problem("corrupt", f"version {record.version} follows version {fold.version} of its stream")
    try:
        event = journal.registry.decode(record)
    except UnknownEvent as error:
        return problem("unknown", str(error))
    except JournalCorrupt as error:
        return problem("corrupt", str(error))
    try:
        kind = fold.take(record, event)
    except Exception as error:  # noqa: BLE001 -- records that somebody made up can break any assumption of the fold
        return problem("fold", f"{record.type} at version {record.version} cannot be folded: {error!r}")
    return None if kind is None else problem(kind, _SAYS[kind](record))


async def _promise(planned: tuple[RunState, Plan], record: Record, elsewhere: Elsewhere) -> ReplayProblem | None:
    """Whether a call was planned as the run's definition has it."""
    state, plan = planned
    found: str | None
    try:
        found = await broken(elsewhere, state, plan, record.position)
    except JournalCorrupt:
        return None  # what cannot be read is told where it stands
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 -- as above: the document may be made up, too
        found = f"the definition cannot be held against it: {error!r}"
    if found is None:
        return None
    message = f"version {record.version} plans the call {plan.action}: {found}"
    recorded = {"type": record.type, "fields": fields(plan)}
    return ReplayProblem("promise", record.stream, record.version, record.position, message, recorded=recorded)


async def _kin(fold: _RunFold, elsewhere: Elsewhere) -> ReplayProblem | None:
    """Whether a run, the run that called it and those that it called say the same of each other."""
    run = fold.state.run
    found: Discord | None
    try:
        for record, event in fold.began:
            found = await lost_child(elsewhere.journal, run, record, event)
            if found is not None:
                return _discord(run, found)
        caller = parent_of(run)
        found = discord(fold.state, fold.ending, await elsewhere.calls(caller)) if caller else None
        if found is not None:
            # The journal may be in use: both may have gone on since they were read.
            found = discord(fold.state, fold.ending, await elsewhere.calls(caller, anew=True))
            head = await elsewhere.journal.head(f"{RUN}{run}")
            found = found if head is not None and head.version == fold.version else None
    except RecordArchived:
        raise
    except (UnknownEvent, JournalCorrupt):
        return None  # what cannot be read is told where it stands
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 -- as above: its kin may be made up, too
        found = Discord(f"it cannot be held against its kin: {error!r}")
    return None if found is None else _discord(run, found)


def _discord(run: str, found: Discord) -> ReplayProblem:
    recorded = None if found.record is None else {"type": found.record.type, "fields": fields(found.event)}
    position = None if found.record is None else found.record.position
    return ReplayProblem("kin", f"{RUN}{run}", None, position, found.message, recorded=recorded)


async def _history(state: RunState, elsewhere: Elsewhere) -> ReplayProblem | None:
    stream = f"{RUN}{state.run}"
    try:
        message = await elsewhere.histories.difference(state)
    except RecordArchived:
        raise
    except (UnknownEvent, JournalCorrupt) as error:
        message = f"what it started from cannot be read: {error}"
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 -- as above: another run's records may be made up, too
        message = f"what it started from cannot be folded: {error!r}"
    return None if message is None else ReplayProblem("history", stream, None, None, message)
