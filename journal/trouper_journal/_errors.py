"""What can go wrong with a journal, one class for each thing that a caller would treat differently.

Every error carries its facts as fields; the message says what happened, to which stream, position or
value, and what to do about it.
"""

from __future__ import annotations


class TrouperError(Exception):
    """Root of every error that Trouper raises on purpose."""


class JournalError(TrouperError):
    """Root of the errors of the journal."""


class InvalidValue(JournalError, ValueError):
    """A value that cannot be journaled; refused before anything is written.

    Attributes:
        path: Where the bad part stands, such as ``arguments.items[3].price``.
        reason: Why it cannot be stored.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'value'}: {reason}")
        self.path = path
        self.reason = reason


class InvalidWrite(JournalError, ValueError):
    """A commit that is malformed in itself (an empty write, a bad name, a driver event without a fence)."""


class UnregisteredEvent(JournalError, TypeError):
    """An event whose class is not in the registry was offered for writing."""


class VersionConflict(JournalError):
    """A stream is not at the version that the writer expected; nothing was written.

    Attributes:
        stream: The stream's name.
        expected: The version that the caller named.
        actual: The version that the stream has.
    """

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(
            f"stream {stream} is at version {actual}, not {expected}: read it again, decide again, then append"
        )
        self.stream = stream
        self.expected = expected
        self.actual = actual


class IdempotencyConflict(JournalError):
    """A key was used before for something else; nothing was written.

    Attributes:
        name: The key's name, such as ``submit:request-001``.
        position: Global position of the first record that the key stands for.
    """

    def __init__(self, name: str, position: int) -> None:
        super().__init__(
            f"key {name} already stands for another command, recorded at position {position}: "
            "use a new key for new content"
        )
        self.name = name
        self.position = position


class StaleFence(JournalError):
    """Another driver has taken the journal over; nothing was written.

    Attributes:
        fence: The epoch that the caller held.
        epoch: The epoch that the journal is at.
    """

    def __init__(self, fence: int, epoch: int) -> None:
        super().__init__(f"this driver's epoch {fence} is over (the journal is at epoch {epoch}): stop driving")
        self.fence = fence
        self.epoch = epoch


class JournalInUse(JournalError):
    """A second driver tried to take a journal that a living process drives.

    Attributes:
        path: The journal.
        holder: Who holds it, as that process wrote it down (process id, host, since when).
    """

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path} is driven by {holder}: stop that process first, or only read and command")
        self.path = path
        self.holder = holder


class JournalClosed(JournalError):
    """The journal was used outside its ``async with`` block."""

    def __init__(self) -> None:
        super().__init__("the journal is not open (any more): use it inside of its `async with` block")


class StorageBusy(JournalError):
    """Another process held the write lock for longer than the busy limit; certainly nothing was written."""


class StorageFull(JournalError):
    """The disk is full; certainly nothing was written."""


class StorageReadOnly(JournalError):
    """The journal's file or folder cannot be written to; certainly nothing was written."""


class StorageUnreadable(JournalError):
    """The journal's file is not there, or it or its log may not be read."""


class JournalBroken(JournalError):
    """A commit failed in a way that leaves its outcome unknown; the journal takes no more writes.

    Open the journal again; only the commit's key, or reading the stream, tells whether it was written.
    """


class JournalCorrupt(JournalError):
    """Stored bytes do not decode, or disagree with their digests.

    Attributes:
        position: Global position of the first record concerned; None where it is not about one record.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message if position is None else f"position {position}: {message}")
        self.position = position


class InvalidProof(JournalError, ValueError):
    """A proof does not show what it should: that a record is in a tree, or that one tree grew into another."""


class InvalidNote(JournalError, ValueError):
    """A signed note or a checkpoint is malformed, or no key that is trusted has signed it."""


class InvalidKey(JournalError, ValueError):
    """A key, or the file that should hold one, cannot be used."""


class CheckpointMismatch(JournalError):
    """The journal does not contain what was signed before: signing it would contradict that.

    Attributes:
        size: Number of records of the checkpoint that it contradicts.
    """

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


class WitnessRefused(JournalError):
    """A witness does not cosign a checkpoint, or cannot be reached.

    Attributes:
        size: How many records it has cosigned before, where it said so.
    """

    def __init__(self, message: str, size: int | None = None) -> None:
        super().__init__(message)
        self.size = size


class MissingExtra(JournalError, ImportError):
    """A feature needs a package that is not installed.

    Attributes:
        package: The package.
        extra: The extra of ``trouper`` that brings it.
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} the package {package}, which the extra {extra} brings: pip install {package}")
        self.package = package
        self.extra = extra


class NotAJournal(JournalError):
    """The file is not a Trouper journal, or one of a format that this release does not know."""


class UnknownEvent(JournalError):
    """A record's type, or its schema number, is not known here: it can be listed and verified, not folded.

    Attributes:
        type: The event's name.
        schema: Its schema number.
        position: Global position of the record.
        known: The newest schema number known here; None where the type itself is unknown.
    """

    def __init__(self, type: str, schema: int, position: int, known: int | None) -> None:
        why = "is unknown here" if known is None else f"is newer than {known}, the newest known here"
        super().__init__(f"position {position}: event {type} schema {schema} {why}: use the release that wrote it")
        self.type = type
        self.schema = schema
        self.position = position
        self.known = known


class RecordArchived(UnknownEvent):
    """A record was moved out to an archive: it can be listed here, and read where the archive is at hand.

    Attributes:
        stream: The record's stream.
        file: Name of the archive's file, as it was called when it was made.
    """

    def __init__(self, position: int, stream: str, file: str) -> None:
        super().__init__("(archived)", 0, position, None)
        # An error's text is what it was made with.
        self.args = (f"position {position}: {stream} was archived to {file}: give that file to read it",)
        self.stream = stream
        self.file = file


class RecordDamaged(UnknownEvent):
    """What is stored in a record's place is not what was recorded: it can be listed, and not folded past.

    Attributes:
        stream: The record's stream; empty where it is not known.
    """

    def __init__(self, problem: str, position: int, stream: str) -> None:
        super().__init__("(damaged)", 0, position, None)
        # An error's text is what it was made with.
        self.args = (f"position {position}: {problem}" if position else problem,)
        self.stream = stream


class ArchiveRefused(JournalError):
    """Streams cannot be archived, or an archive does not go with this journal; nothing was moved."""


class JournalRolledBack(JournalError):
    """The journal's file was put back to an earlier state than it was left in: records that were written are not in it.

    It can be read and added to; nothing in it is driven until a person has accepted that.

    Attributes:
        path: The journal's file.
        lost: How many records it had when it was last left, as the file beside it says.
        found: How many it had when it was opened.
    """

    def __init__(self, path: str, lost: int, found: int) -> None:
        what = (
            f"it had {lost:,} records and was found with {found:,}" if found < lost else f"its {lost:,} records changed"
        )
        super().__init__(
            f"{path} is not as it was left ({what}), as where an old copy was restored: its runs are parked until "
            f"`trouper restore {path} --accept --as NAME --reason ...`"
        )
        self.path = path
        self.lost = lost
        self.found = found


class InvalidRegistry(JournalError, ValueError):
    """Event classes that cannot form a registry (a name used twice, a field whose values cannot be stored)."""


class InvalidProjection(JournalError, ValueError):
    """A projection that cannot be meant: its name, or a statement that touches other tables than its own."""


class ProjectionOutdated(JournalError):
    """The stored tables of a projection were made by a newer version of it; they were left as they are.

    Attributes:
        name: The projection.
        version: The version at hand.
        stored: The version that the tables are of.
    """

    def __init__(self, name: str, version: int, stored: int) -> None:
        super().__init__(
            f"the tables of projection {name} are of version {stored}, newer than {version} here: use that release"
        )
        self.name = name
        self.version = version
        self.stored = stored
