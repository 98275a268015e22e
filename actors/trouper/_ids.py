"""The one source of ids and of randomness: time-ordered run ids (ULID) and random bytes."""

from __future__ import annotations

import os
import random
import threading
from functools import partial
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

# One entry for each fork that led to this process. Process ids would not do: they are given out again.
_forks: list[None] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(_forks.append, None))


class SystemEntropy(threading.local):
    """The operating system's randomness, fetched in larger pieces; no piece is used twice, in any thread or process.

    Each fetch gives the interpreter's lock away, and in a program with busy threads it comes back late. Each thread has
    pieces of its own: a lock that another thread held when the process was forked would never be free in the child.
    """

    def __init__(self) -> None:
        self._pool = b""
        self._used = 0
        self._forks = 0

    def token(self, size: int) -> bytes:
        """``size`` random bytes, fit for keys."""
        if self._used + size > len(self._pool) or self._forks != len(_forks):
            # A forked process has its parent's pool, and must not use it.
            self._pool, self._used, self._forks = os.urandom(max(size, _POOL)), 0, len(_forks)
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
