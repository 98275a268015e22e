"""Forks in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trouper.core.base import HistoryRef
from trouper.core.fork import Fork, Writes
from trouper.narration.text import clean

_WRITES: Final[Mapping[Writes, str]] = {
    "block": "new writes are refused",
    "simulate": "new writes are simulated, and never done",
    "ask": "people are asked about new writes",
}


def fork_text(fork: Fork) -> str:
    """What a run is a fork of, and what becomes of its writes."""
    return f"a fork of run {clean(fork.run)} {as_of(fork)}; {new_writes(fork)}"


def as_of(place: Fork | HistoryRef) -> str:
    """Up to where in the other run."""
    return f"as it stood after its event {place.version}"


def new_writes(fork: Fork) -> str:
    """What becomes of a write that the other run did not make."""
    return _WRITES[fork.writes]
