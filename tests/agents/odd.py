"""What code of a user's may do that nobody expects of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NoReturn

import trio


class Mute(Exception):
    """Cannot say what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Sealed(Sequence[str]):
    """Cannot be looked into."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: object) -> NoReturn:
        raise RuntimeError("sealed")


async def leaks(*_: object) -> NoReturn:
    """Lets the Cancelled of a scope of its own out of it."""
    kept: BaseException | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            kept = cancelled
            raise
    assert kept is not None
    raise kept


def foreign(*_: object) -> NoReturn:
    """Raises what is no Exception, in a group."""
    raise BaseExceptionGroup("several", [ValueError("x"), asyncio.CancelledError()])


def mute(*_: object) -> NoReturn:
    """Raises an error without words."""
    raise Mute
