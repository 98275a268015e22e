"""Random bytes: none is used twice, and nobody waits for them who should not."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import pytest

from trouper._ids import SystemEntropy


def in_child(entropy: SystemEntropy) -> bytes:
    """What a forked process gets; empty where it got nothing in time."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of forks beside threads, which is what is tried here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover -- in another process
        os.write(write, entropy.token(16))
        os._exit(0)
    os.close(write)
    alarm = threading.Timer(10, os.kill, (child, signal.SIGKILL))
    alarm.start()
    try:
        os.waitpid(child, 0)
        return os.read(read, 16)
    finally:
        alarm.cancel()
        os.close(read)


def test_no_bytes_are_given_twice() -> None:
    entropy = SystemEntropy()
    given = [entropy.token(10) for _ in range(5000)]
    given.append(entropy.token(40_000)[:10])

    def other() -> None:
        given.extend(entropy.token(10) for _ in range(5000))

    thread = threading.Thread(target=other)
    thread.start()
    given += [entropy.token(10) for _ in range(5000)]
    thread.join()
    assert len(set(given)) == len(given) == 15_001
    assert {len(each) for each in given} == {10}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_has_bytes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    entropy = SystemEntropy()
    entropy.token(10)
    fetching, go = threading.Event(), threading.Event()
    real, main = os.urandom, threading.current_thread()

    def fetched(size: int) -> bytes:
        if threading.current_thread() is not main:
            fetching.set()
            go.wait()
        return real(size)

    monkeypatch.setattr(os, "urandom", fetched)
    thread = threading.Thread(target=entropy.token, args=(40_000,))
    thread.start()
    assert fetching.wait(10)
    try:
        # Another thread is at it in the moment of the fork: in the child it never comes to its end.
        first, second = in_child(entropy), in_child(entropy)
    finally:
        go.set()
        thread.join()
    own = entropy.token(16)
    assert len(first) == len(second) == 16
    assert len({first, second, own}) == 3
