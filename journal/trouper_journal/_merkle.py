"""The Merkle tree over a journal's leaves, kept as a compact range.

The tree is that of RFC 6962, section 2.1. A compact range holds the roots of the perfect subtrees that its size
splits into, largest first: enough to extend the tree and to name its root, in a few hundred bytes for any length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import attrs

from trouper_journal._errors import JournalCorrupt
from trouper_journal._printable import Plain

_sha256 = hashlib.sha256


@attrs.frozen(slots=True, repr=False, eq=False)
class CompactRange(Plain):
    """The first ``size`` leaves of a tree.

    Attributes:
        size: Number of leaves.
        hashes: Roots of the perfect subtrees, one for each bit of ``size``, largest first.
    """

    size: int
    hashes: tuple[bytes, ...]

    def extend(self, leaves: Iterable[bytes]) -> CompactRange:
        """The range with further leaf hashes at its end."""
        size = self.size
        hashes = list(self.hashes)
        for leaf in leaves:
            node = leaf
            filled = size
            while filled & 1:
                node = _sha256(b"\1" + hashes.pop() + node).digest()
                filled >>= 1
            hashes.append(node)
            size += 1
        return CompactRange(size, tuple(hashes))

    def join(self, other: CompactRange) -> CompactRange:
        """The range with the leaves of another one at its end.

        Raises:
            ValueError: The other's perfect subtrees are not subtrees of the whole, because of where this one ends.
        """
        size = self.size
        hashes = list(self.hashes)
        left = other.size
        for node in other.hashes:
            width = 1 << (left.bit_length() - 1)
            left -= width
            if size % width:
                raise ValueError(f"a subtree of {width} leaves cannot stand behind {size} leaves")
            filled = size // width
            while filled & 1:
                node = _sha256(b"\1" + hashes.pop() + node).digest()
                filled >>= 1
            hashes.append(node)
            size += width
        return CompactRange(size, tuple(hashes))

    def root(self) -> bytes:
        """The Merkle tree hash over all leaves; SHA-256 of nothing for the empty tree."""
        if not self.hashes:
            return _sha256(b"").digest()
        node = self.hashes[-1]
        for left in reversed(self.hashes[:-1]):
            node = _sha256(b"\1" + left + node).digest()
        return node

    def to_bytes(self) -> bytes:
        """The size as 8 bytes, most significant first, then the hashes."""
        return self.size.to_bytes(8, "big") + b"".join(self.hashes)

    @classmethod
    def from_bytes(cls, data: bytes) -> CompactRange:
        """Read what ``to_bytes`` wrote; no bytes at all are the empty range.

        Raises:
            JournalCorrupt: The bytes are not a compact range.
        """
        if not data:
            return EMPTY_RANGE
        size = int.from_bytes(data[:8], "big")
        if len(data) != 8 + 32 * size.bit_count():
            raise JournalCorrupt(f"{len(data)} bytes are not a compact range")
        return cls(size, tuple(data[start : start + 32] for start in range(8, len(data), 32)))


EMPTY_RANGE: Final = CompactRange(0, ())
"""The range of a journal without records."""
