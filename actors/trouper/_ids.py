"""The one source of ids and of randomness: time-ordered run ids (ULID) and random bytes."""

from __future__ import annotations

import os
import random
import threading
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


_POOL = 16 * 1024


class SystemEntropy:
    """The operating system's randomness, fetched in larger pieces; no piece is used twice, in any thread or process.

    Each fetch gives the interpreter's lock away, and in a program with busy threads it comes back late.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = b""
        self._used = 0
        self._process = 0

    def token(self, size: int) -> bytes:
        """``size`` random bytes, fit for keys."""
        with self._lock:
            process = os.getpid()
            if self._used + size > len(self._pool) or process != self._process:
                # A forked process has its parent's pool, and must not use it.
                self._pool, self._used, self._process = os.urandom(max(size, _POOL)), 0, process
            first, self._used = self._used, self._used + size
            return self._pool[first : self._used]

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
