"""Exit codes: what each tells a script, and which error leads to which."""

from __future__ import annotations

from enum import IntEnum

from trouper.errors import (
    ApprovalError,
    ArchiveRefused,
    CheckpointMismatch,
    ContentWithheld,
    DefinitionError,
    EditError,
    ErasureRefused,
    ForkError,
    IdempotencyConflict,
    InvalidKey,
    InvalidNote,
    InvalidProof,
    InvalidValue,
    JournalError,
    JournalInUse,
    JournalRolledBack,
    MissingExtra,
    RecordArchived,
    ResolveError,
    SessionError,
    SteerError,
    TrouperError,
    UnknownAction,
    UnknownAgent,
    UnknownRule,
    UnknownRun,
    UnknownSession,
    VersionConflict,
    WitnessRefused,
)


class Exit(IntEnum):
    """How a command ended; part of the public interface."""

    OK = 0
    BAD = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    STORAGE = 5
    DEFECT = 70
    INTERRUPTED = 130


class UsageError(TrouperError):
    """What was given cannot be meant."""


class NotFoundError(TrouperError, LookupError):
    """What was named is not there."""


class ConflictError(TrouperError):
    """What was asked for is at odds with what is there."""


_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (UsageError, Exit.USAGE),
    (DefinitionError, Exit.USAGE),
    (EditError, Exit.USAGE),
    (ForkError, Exit.USAGE),
    (InvalidValue, Exit.USAGE),
    (InvalidKey, Exit.USAGE),
    (MissingExtra, Exit.USAGE),
    (NotFoundError, Exit.NOT_FOUND),
    (UnknownRun, Exit.NOT_FOUND),
    (UnknownAction, Exit.NOT_FOUND),
    (UnknownAgent, Exit.NOT_FOUND),
    (UnknownSession, Exit.NOT_FOUND),
    (UnknownRule, Exit.NOT_FOUND),
    (RecordArchived, Exit.NOT_FOUND),
    (ConflictError, Exit.CONFLICT),
    (ContentWithheld, Exit.CONFLICT),
    (ErasureRefused, Exit.CONFLICT),
    (ApprovalError, Exit.CONFLICT),
    (ResolveError, Exit.CONFLICT),
    (SteerError, Exit.CONFLICT),
    (SessionError, Exit.CONFLICT),
    (IdempotencyConflict, Exit.CONFLICT),
    (VersionConflict, Exit.CONFLICT),
    (JournalInUse, Exit.CONFLICT),
    (JournalRolledBack, Exit.CONFLICT),
    (ArchiveRefused, Exit.CONFLICT),
    (InvalidNote, Exit.BAD),
    (InvalidProof, Exit.BAD),
    (CheckpointMismatch, Exit.BAD),
    (WitnessRefused, Exit.BAD),
    (JournalError, Exit.STORAGE),
    (OSError, Exit.STORAGE),
    (TrouperError, Exit.BAD),
)


def code_of(error: Exception) -> Exit:
    """The exit code for an error; the first line of the table that fits."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.DEFECT)


def unwrapped(error: Exception) -> Exception:
    """The error itself, where nurseries have wrapped it and it is the only one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
