"""Ctrl-C at any moment ends a command in good order, and never with a traceback."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import pytest
import trio
import trio.testing

from trouper.cli.codes import Exit
from trouper.cli.command import run_async


async def forever() -> Exit:
    await trio.Event().wait()
    return Exit.OK


async def deaf() -> Exit:
    """Hears nothing but Ctrl-C itself."""
    with trio.CancelScope(shield=True):
        await trio.Event().wait()
    return Exit.OK


class Interrupting:
    """A trace function that sends SIGINT before a line of the command's frame, counted from 1."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Interrupting | None:
        if frame.f_globals.get("__name__") != run_async.__module__:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self


def interrupted_at(line: int) -> bool:
    """Whether the command came as far as that line; it was ended there by Ctrl-C, and in no other way."""
    tracing = Interrupting(line)
    sys.settrace(tracing)
    try:
        assert run_async(forever) is Exit.INTERRUPTED
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return tracing.left <= 0


async def unheard() -> Exit:
    """Interrupts itself as soon as it begins."""
    signal.raise_signal(signal.SIGINT)
    return await forever()


async def twice() -> Exit:
    """Interrupts itself, does not listen, and does so once more."""
    signal.raise_signal(signal.SIGINT)
    with trio.CancelScope(shield=True):
        await trio.testing.wait_all_tasks_blocked()
    signal.raise_signal(signal.SIGINT)
    return await deaf()


def test_at_the_first_moment_it_is_heard() -> None:
    assert run_async(unheard) is Exit.INTERRUPTED


def test_the_second_time_it_has_its_usual_force() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_async(twice)


@pytest.mark.parametrize("line", range(1, 9))
def test_before_all_is_set_up_it_is_an_interruption_too(line: int) -> None:
    assert interrupted_at(line)
