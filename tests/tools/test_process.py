"""A process ends although a tool does not."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
import trio
from trouper._clock import SystemClock
from trouper.tools import ToolContext, ToolHost, call_tool, tool


@tool(timeout=0.05)
def hang() -> None:
    threading.Event().wait()


async def main() -> None:
    async with trio.open_nursery() as nursery:
        host = ToolHost(nursery, SystemClock())
        context = ToolContext("r", "r/0.0", "r/0.0")
        print(await call_tool(hang, {}, context=context, secrets={}, host=host))
        nursery.cancel_scope.cancel()


trio.run(main)
"""


def test_a_hanging_thread_does_not_keep_the_process_alive() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == (
        "Failed(kind='timeout', message='it timed out and may still take effect', left=True, retry_after=None)\n"
    )
    assert done.stderr == ""
