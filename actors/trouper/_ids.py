"""The one source of ids and of randomness: time-ordered run ids (ULID) and random bytes."""

from __future__ import annotations

import os
import random
from typing import Protocol

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)


class Entropy(Protocol):
    """Source of what must not be guessed or repeated."""

    def token(self, size: int) -> bytes:
        """``size`` random bytes, fit for keys."""
        ...

    def fraction(self) -> float:
        """A random number in [0, 1), for jitter only."""
        ...


class SystemEntropy:
    """The operating system's randomness."""

    def token(self, size: int) -> bytes:
        """``size`` random bytes, fit for keys."""
        return os.urandom(size)

    def fraction(self) -> float:
        """A random number in [0, 1), for jitter only."""
        return random.random()  # noqa: S311 -- jitter is no secret


def ulid(now: int, entropy: Entropy) -> str:
    """A ULID: 48 bits of milliseconds and 80 random bits in Crockford's base 32 (github.com/ulid/spec).

    Args:
        now: Now, ns UTC.
        entropy: Where the random bits come from.
    """
    number = (now // 1_000_000) << 80 | int.from_bytes(entropy.token(10), "big")
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])
