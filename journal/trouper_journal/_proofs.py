"""Proofs over the Merkle tree of RFC 6962: that a leaf is in a tree, and that one tree is the beginning of another.

Indexes count leaves from 0, so that a record's index is its position less one. The proofs are those of RFC 6962,
sections 2.1.1 and 2.1.2; they are checked as RFC 9162, sections 2.1.3.2 and 2.1.4.2, says. A span is a range of leaves
that forms a node of the tree; a proof is the hashes of some spans, which one pass over the leaves gives for any number
of proofs at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from trouper_journal._errors import InvalidProof
from trouper_journal._merkle import EMPTY_RANGE
from trouper_journal._printable import Printable

Span: TypeAlias = tuple[int, int]
"""The leaves of a node: the index of the first, and that behind the last."""

HASH_SIZE: Final = 32
"""Bytes of a hash."""

_sha256 = hashlib.sha256


def inclusion_spans(index: int, size: int) -> list[Span]:
    """The nodes whose hashes prove that the leaf at ``index`` is in the tree over ``size`` leaves, in their order.

    Raises:
        ValueError: There is no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has none at index {index}")
    spans, _ = _beside(index + 1, size, lambda start, stop: stop - start == 1)
    return spans[::-1]


def consistency_spans(old: int, new: int) -> list[Span]:
    """The nodes whose hashes prove that the tree over ``old`` leaves is the beginning of that over ``new``, in order.

    Raises:
        ValueError: The old tree is larger than the new one.
    """
    if not 0 <= old <= new:
        raise ValueError(f"a tree of {new} leaves has no beginning of {old} leaves")
    if old == 0:
        return []
    spans, last = _beside(old, new, lambda _, stop: stop == old)
    if last[0]:
        # Otherwise the node is the whole old tree, whose root is known to whoever checks.
        spans.append(last)
    return spans[::-1]


def _beside(position: int, size: int, there: Callable[[int, int], bool]) -> tuple[list[Span], Span]:
    """Go down the tree towards a position, until ``there``: the nodes beside the way, and that at its end."""
    spans: list[Span] = []
    start, stop = 0, size
    while not there(start, stop):
        middle = start + _left_size(stop - start)
        if position <= middle:
            spans.append((middle, stop))
            stop = middle
        else:
            spans.append((start, middle))
            start = middle
    return spans, (start, stop)


def _set_of(spans: Iterable[Span]) -> frozenset[Span]:
    return frozenset(spans)


@attrs.define(slots=True, repr=False, eq=False)
class NodeCollector(Printable):
    """Hashes of chosen nodes, from one pass over the leaves.

    Memory grows with the number of nodes that are wanted, not with the number of leaves.

    Attributes:
        wanted: The nodes' spans, of one tree or of several sizes of it.
        size: How many leaves have been seen.
    """

    wanted: frozenset[Span] = attrs.field(converter=_set_of)
    size: int = 0
    _hashes: list[bytes] = attrs.field(factory=list, init=False, repr=False)
    _found: dict[Span, bytes] = attrs.field(factory=dict, init=False, repr=False)
    _ends: frozenset[int] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        # Spans that are no perfect subtree end where the tree that they belong to ends.
        self._ends = frozenset(stop for start, stop in self.wanted if (stop - start) & (stop - start - 1))

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Take further leaf hashes, in order."""
        hashes, wanted, found, ends = self._hashes, self.wanted, self._found, self._ends
        size = self.size
        for node in leaves:
            if (size, size + 1) in wanted:
                found[size, size + 1] = node
            width, filled = 1, size
            while filled & 1:
                node = _sha256(b"\1" + hashes.pop() + node).digest()
                width *= 2
                filled >>= 1
                span = (size + 1 - width, size + 1)
                if span in wanted:
                    found[span] = node
            hashes.append(node)
            size += 1
            if size in ends:
                self._collect_edge(size)
        self.size = size

    def root(self) -> bytes:
        """The Merkle tree hash over all leaves so far; SHA-256 of nothing for the empty tree."""
        if not self._hashes:
            return EMPTY_RANGE.root()
        node = self._hashes[-1]
        for left in reversed(self._hashes[:-1]):
            node = _sha256(b"\1" + left + node).digest()
        return node

    def nodes(self, spans: Sequence[Span]) -> tuple[bytes, ...]:
        """The hashes of these nodes: a proof, where ``spans`` are those of one.

        Raises:
            ValueError: One was not wanted, or its leaves have not been seen yet.
        """
        try:
            return tuple(self._found[span] for span in spans)
        except KeyError as error:
            raise ValueError(f"the node over leaves {error} was not collected from {self.size} leaves") from error

    def _collect_edge(self, size: int) -> None:
        """The nodes at the right edge of the tree as it is now, which no full subtree is."""
        start = filled = size
        node = b""
        for left in reversed(self._hashes):
            width = filled & -filled
            filled -= width
            start -= width
            node = _sha256(b"\1" + left + node).digest() if node else left
            if (start, size) in self.wanted:
                self._found[start, size] = node


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The proof that the leaf at ``index`` is in the tree over ``leaves``.

    Raises:
        ValueError: There is no such leaf.
    """
    return _nodes(leaves, inclusion_spans(index, len(leaves)))


def consistency_proof(leaves: Sequence[bytes], old: int) -> tuple[bytes, ...]:
    """The proof that the tree over the first ``old`` leaves is the beginning of the tree over ``leaves``.

    Raises:
        ValueError: There are fewer leaves than ``old``.
    """
    return _nodes(leaves, consistency_spans(old, len(leaves)))


def root_of_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root of the tree over ``size`` leaves that a proof leads to.

    Raises:
        InvalidProof: No proof for this place can have this form.
    """
    if not 0 <= index < size:
        raise InvalidProof(f"a tree of {size} leaves has none at index {index}")
    _check_hashes((leaf, *path))
    node, place, last = leaf, index, size - 1
    for sibling in path:
        if not last:
            raise InvalidProof("the proof has too many hashes")
        if place & 1 or place == last:
            node = _sha256(b"\1" + sibling + node).digest()
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            node = _sha256(b"\1" + node + sibling).digest()
        place >>= 1
        last >>= 1
    if last:
        raise InvalidProof("the proof has too few hashes")
    return node


def check_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that a leaf is in the tree with this size and root.

    Args:
        leaf: The leaf's hash.
        index: Its place, from 0.
        size: Number of leaves of the tree.
        path: The proof, from the leaf upwards.
        root: The tree's root.

    Raises:
        InvalidProof: The proof does not show it.
    """
    if root_of_inclusion(leaf, index, size, path) != root:
        raise InvalidProof(f"the proof for the leaf at index {index} leads to another root than that of the tree")


def check_consistency(old: int, new: int, path: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Check that one tree is the beginning of another.

    Args:
        old: Number of leaves of the smaller tree.
        new: Number of leaves of the larger tree.
        path: The proof.
        old_root: Root of the smaller tree.
        new_root: Root of the larger tree.

    Raises:
        InvalidProof: The proof does not show it.
    """
    if not 0 <= old <= new:
        raise InvalidProof(f"a tree of {new} leaves has no beginning of {old} leaves")
    _check_hashes((old_root, new_root, *path))
    if old in (0, new):
        if path:
            raise InvalidProof("the proof has too many hashes")
        if old_root != (new_root if old else EMPTY_RANGE.root()):
            raise InvalidProof("two trees of the same size have different roots")
        return
    if _roots_of_consistency(old, new, path, old_root) != (old_root, new_root):
        raise InvalidProof(f"the tree of {old} leaves is not the beginning of the tree of {new} leaves")


def _roots_of_consistency(old: int, new: int, path: Sequence[bytes], old_root: bytes) -> tuple[bytes, bytes]:
    place, last = old - 1, new - 1
    while place & 1:
        place >>= 1
        last >>= 1
    # Where the old tree is a node of the new one, the proof begins with it in thought.
    nodes = iter([old_root, *path] if old & (old - 1) == 0 else path)
    first = second = next(nodes, b"")
    for sibling in nodes:
        if not last:
            raise InvalidProof("the proof has too many hashes")
        if place & 1 or place == last:
            first = _sha256(b"\1" + sibling + first).digest()
            second = _sha256(b"\1" + sibling + second).digest()
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            second = _sha256(b"\1" + second + sibling).digest()
        place >>= 1
        last >>= 1
    if last:
        raise InvalidProof("the proof has too few hashes")
    return first, second


def _check_hashes(hashes: Iterable[bytes]) -> None:
    if any(len(each) != HASH_SIZE for each in hashes):
        raise InvalidProof(f"a proof is made of hashes of {HASH_SIZE} bytes")


def _left_size(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def _nodes(leaves: Iterable[bytes], spans: Sequence[Span]) -> tuple[bytes, ...]:
    collector = NodeCollector(spans)
    collector.extend(leaves)
    return collector.nodes(spans)
