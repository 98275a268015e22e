"""What checking a journal finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from trouper_journal._printable import Plain

Kind: TypeAlias = Literal[
    "position",
    "version",
    "leaf",
    "head",
    "value",
    "encoding",
    "archive",
    "stream",
    "key",
    "unreadable",
    "checkpoint",
    "split",
    "witness",
    "rolled_back",
]

Grade: TypeAlias = Literal["self-consistent", "inconsistent", "matches checkpoint", "witnessed"]


@attrs.frozen(slots=False, repr=False, eq=False)
class Problem(Plain):
    """One thing that is not as it must be.

    Attributes:
        position: Global position of the record concerned; None where it is not about one.
        stream: Name of the stream concerned; None where it is not about one.
        kind: What disagrees: a gapless number, a leaf, the head, a large value, packed bytes, an index, the storage
            itself, a signed checkpoint, an archive at hand, what is known of the journal's past, or two of these with
            each other; or too few witnesses have signed.
        message: What was found, and what should be there.
    """

    position: int | None
    stream: str | None
    kind: Kind
    message: str


@attrs.frozen(slots=False, repr=False, eq=False)
class CheckedCheckpoint(Plain):
    """A signed checkpoint beside the journal.

    Attributes:
        origin: Name of the log.
        size: How many records were signed.
        root: The root that was signed, in hexadecimal.
        status: ``matches``; ``missing``, where the journal has fewer records; ``changed``, where its first ones are
            others than those that were signed.
        witnesses: Names of the trusted witnesses who have cosigned it.
    """

    origin: str
    size: int
    root: str
    status: Literal["matches", "missing", "changed"]
    witnesses: tuple[str, ...]


@attrs.frozen(slots=False, repr=False, eq=False)
class Verification(Plain):
    """What was found.

    Attributes:
        journal_id: The journal's id in hexadecimal.
        records: How many records were checked.
        streams: How many streams they form.
        values: How many large values they refer to.
        root: The Merkle root over them, recomputed, in hexadecimal.
        grade: ``self-consistent``, or ``inconsistent`` where there are problems. Compared with checkpoints,
            ``matches checkpoint``, or ``witnessed`` where trusted witnesses have cosigned the largest: so are the first
            ``signed`` records, and of those that follow nobody else has said anything.
        problems: The first problems, in the order met.
        found: How many problems there are in all.
        roots: The roots over the first so many records, in hexadecimal, for the sizes that were asked for.
        checkpoints: The checkpoints that it was compared with.
        signed: How many of the records, the first ones, are those of the largest checkpoint; 0 for none.
        archived: How many of the records are in archives, not here: only that their digests are in the tree is checked.
    """

    journal_id: str
    records: int
    streams: int
    values: int
    root: str
    grade: Grade
    problems: tuple[Problem, ...]
    found: int
    roots: Mapping[int, str] = attrs.field(factory=dict)
    checkpoints: tuple[CheckedCheckpoint, ...] = ()
    archived: int = 0
    signed: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing disagrees."""
        return not self.found
