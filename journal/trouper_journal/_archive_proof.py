"""The proof that goes into an archive: that its records are the ones that the journal's tree has at their positions.

Between the archived leaves lie gaps. The proof holds, for each gap, the roots of the largest perfect subtrees that it
consists of (nodes of the tree of RFC 6962, section 2.1). With the leaves of the archived records these are enough to
compute the tree's root again, for all of the records at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import attrs

from trouper_journal._errors import JournalCorrupt
from trouper_journal._merkle import CompactRange
from trouper_journal._printable import Plain

_sha256 = hashlib.sha256


@attrs.frozen(slots=True, repr=False, eq=False)
class Node(Plain):
    """The root of a perfect subtree.

    Attributes:
        first: Position of the first record below it, from 1.
        level: It has 2 to the power of ``level`` leaves below it.
        hash: Its hash; a leaf's, where the level is 0.
    """

    first: int
    level: int
    hash: bytes

    @property
    def behind(self) -> int:
        """Position of the record behind the last below it."""
        return self.first + (1 << self.level)


class Gap:
    """Takes leaves in order of position, and keeps the fewest nodes that they form: a few dozen at most."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []

    def add(self, position: int, leaf: bytes) -> None:
        """Take the next leaf."""
        node = Node(position, 0, leaf)
        while self._nodes and _forms_one(self._nodes[-1], node):
            left = self._nodes.pop()
            node = Node(left.first, left.level + 1, _sha256(b"\1" + left.hash + node.hash).digest())
        self._nodes.append(node)

    def close(self) -> list[Node]:
        """The nodes, in order; the gap begins anew."""
        nodes, self._nodes = self._nodes, []
        return nodes


def _forms_one(left: Node, right: Node) -> bool:
    # Where a subtree stands in the whole tree follows from how many leaves come before it.
    return left.level == right.level and (left.first - 1) % (2 << left.level) == 0


def root_over(nodes: Iterable[Node], size: int) -> bytes:
    """The root of the tree of ``size`` leaves from nodes that cover it, in order.

    Raises:
        JournalCorrupt: They do not cover it, each leaf once.
    """
    stack: list[Node] = []
    position = 1
    for node in nodes:
        if node.first != position or node.level < 0 or (node.first - 1) % (1 << node.level):
            raise JournalCorrupt(f"position {position} is in none of the archive's records and proofs")
        position = node.behind
        while stack and stack[-1].level == node.level:
            left = stack.pop()
            node = Node(left.first, left.level + 1, _sha256(b"\1" + left.hash + node.hash).digest())
        stack.append(node)
    if position != size + 1:
        raise JournalCorrupt(f"the archive's records and proofs cover {position - 1} positions, not {size}")
    return CompactRange(size, tuple(node.hash for node in stack)).root()
