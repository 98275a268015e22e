"""Two sequences side by side: what they have in common, and what stands on one side alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Generic, Literal, TypeAlias, TypeVar

from attrs import frozen

from trouper_journal import Plain

T = TypeVar("T")

Kind: TypeAlias = Literal["same", "changed", "left", "right"]

# Beyond this, items are paired by their places: the time of a better match grows with the square of it.
_MATCHED = 2_000


@frozen(slots=False, repr=False, eq=False)
class Row(Plain, Generic[T]):
    """An item of each side, or of one.

    Attributes:
        kind: ``same`` on both sides; ``changed`` from one to the other; on the ``left`` or the ``right`` alone.
        left: The left side's; None where it has none.
        right: The right side's; None where it has none.
    """

    kind: Kind
    left: T | None
    right: T | None


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """How many items are equal from the first on."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def aligned(
    left: Sequence[T], right: Sequence[T], key: Callable[[T], bytes], whole: Callable[[T], bytes] | None = None
) -> tuple[Row[T], ...]:
    """Put two sequences side by side.

    Args:
        left: One side.
        right: The other.
        key: What makes items belong together.
        whole: What makes items that belong together the same; by default all do.
    """
    keys = [key(item) for item in left], [key(item) for item in right]
    return tuple(_rows(left, right, keys, whole))


def _rows(
    left: Sequence[T],
    right: Sequence[T],
    keys: tuple[Sequence[bytes], Sequence[bytes]],
    whole: Callable[[T], bytes] | None,
) -> Iterator[Row[T]]:
    for kind, a, b, c, d in _opcodes(*keys):
        ours, theirs = left[a:b], right[c:d]
        for one, other in zip(ours, theirs, strict=False):
            same = kind == "equal" and (whole is None or whole(one) == whole(other))
            yield Row("same" if same else "changed", one, other)
        yield from (Row("left", one, None) for one in ours[len(theirs) :])
        yield from (Row("right", None, other) for other in theirs[len(ours) :])


def _opcodes(left: Sequence[bytes], right: Sequence[bytes]) -> Iterator[tuple[str, int, int, int, int]]:
    begin = common_prefix(left, right)
    end = common_prefix(left[begin:][::-1], right[begin:][::-1])
    last, other = len(left) - end, len(right) - end
    yield "equal", 0, begin, 0, begin
    if max(last, other) - begin > _MATCHED:
        yield "replace", begin, last, begin, other
    else:
        for kind, a, b, c, d in SequenceMatcher(None, left[begin:last], right[begin:other], False).get_opcodes():
            yield kind, begin + a, begin + b, begin + c, begin + d
    yield "equal", last, len(left), other, len(right)
