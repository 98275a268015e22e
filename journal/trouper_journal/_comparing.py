"""What a journal's records say, beside what was signed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

import attrs

from trouper_journal._checkpoints import SignedCheckpoint
from trouper_journal._journal import Journal
from trouper_journal._verification import CheckedCheckpoint, Grade, Problem, Verification


async def verify_signed(
    journal: Journal,
    signed: Sequence[SignedCheckpoint],
    progress: Callable[[int, int], None] | None = None,
    *,
    quorum: int = 1,
    jobs: int = 1,
) -> Verification:
    """Check a journal against itself, and against checkpoints whose signatures were checked (``open_checkpoint``).

    Args:
        journal: The opened journal.
        signed: Checkpoints of its log, in any order.
        progress: Called after each page with the records checked and their total.
        quorum: How many trusted witnesses must have cosigned the largest checkpoint for the grade ``witnessed``.
        jobs: As for ``Journal.verify``.

    Raises:
        StorageBusy, JournalBroken: As for ``Journal.verify``.
    """
    found = await journal.verify(progress, sizes=[each.checkpoint.size for each in signed], jobs=jobs)
    return compare(found, signed, quorum=quorum)


def compare(found: Verification, signed: Sequence[SignedCheckpoint], *, quorum: int = 1) -> Verification:
    """Compare a verification with checkpoints whose signatures were checked.

    Args:
        found: What ``verify`` found, with ``sizes`` those of the checkpoints.
        signed: The checkpoints of the journal's log.
        quorum: How many trusted witnesses must have cosigned the largest checkpoint for the grade ``witnessed``.

    Returns:
        The verification with the checkpoints, what they contradict, and the grade that they give it.

    """
    ordered = sorted(signed, key=lambda each: each.checkpoint.size)
    checked = [_checked(found, each) for each in ordered]
    problems = [*_splits(ordered), *_problems(found, checked)]
    grade: Grade = found.grade
    # A checkpoint of no records is one of every journal.
    signed_now = checked[-1].size if checked and not (problems or found.found) else 0
    if problems:
        grade = "inconsistent"
    elif signed_now:
        grade = "witnessed" if len(checked[-1].witnesses) >= quorum else "matches checkpoint"
    return attrs.evolve(
        found,
        grade=grade,
        problems=(*problems, *found.problems),
        found=found.found + len(problems),
        checkpoints=tuple(checked),
        signed=signed_now,
    )


def _checked(found: Verification, signed: SignedCheckpoint) -> CheckedCheckpoint:
    checkpoint = signed.checkpoint
    root, here = checkpoint.root.hex(), found.roots.get(checkpoint.size)
    status: Literal["matches", "missing", "changed"]
    status = "missing" if here is None else "matches" if here == root else "changed"
    witnesses = tuple(witness.name for witness in signed.witnesses)
    return CheckedCheckpoint(checkpoint.origin, checkpoint.size, root, status, witnesses)


def _splits(ordered: Sequence[SignedCheckpoint]) -> Iterator[Problem]:
    for one, other in pairwise(ordered):
        if one.checkpoint.size == other.checkpoint.size and one.checkpoint.root != other.checkpoint.root:
            message = (
                f"split view: {one.checkpoint.origin} signed two different histories of {one.checkpoint.size} records, "
                f"with the roots {one.checkpoint.root.hex()} and {other.checkpoint.root.hex()}"
            )
            yield Problem(None, None, "split", message)


def _problems(found: Verification, checked: Sequence[CheckedCheckpoint]) -> Iterator[Problem]:
    good = 0
    for each in checked:
        if each.status == "matches":
            good = each.size
        elif each.status == "changed":
            message = (
                f"the first {each.size} records are not those that {each.origin} signed: one of the positions "
                f"{good + 1} to {each.size} holds something else, or the holder of the key showed another history"
            )
            yield Problem(good + 1 if good + 1 == each.size else None, None, "checkpoint", message)
        else:
            message = (
                f"{each.origin} signed {each.size} records, the journal has {found.records}: the last are missing; "
                "it was cut, or is an old copy"
            )
            yield Problem(None, None, "checkpoint", message)
