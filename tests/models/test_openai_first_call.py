"""The first calls of a process: what they import and make is made once, and not where everything else would stand."""

from __future__ import annotations

import subprocess
import sys

import openai
import pytest
import trio

from trouper import Human, ModelConfig
from trouper.testing import Wait, strict_stub
from trouper_adapters.openai import OpenAIModel

FIRST_CALL = """
import sys, threading, trio
from importlib.abc import MetaPathFinder
from trouper import Human, ModelConfig
from trouper.testing import strict_stub
from trouper_adapters.openai import OpenAIModel

class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if threading.current_thread() is threading.main_thread():
            print(name)

async def main():
    async with strict_stub(["Hello."]) as stub:
        model = OpenAIModel("m", base_url=stub.url, api_key="sk-test")
        sys.meta_path.insert(0, Finder())
        await model.agenerate([Human("1", "Hello?")], [], ModelConfig())
        await model.aclose()

trio.run(main)
assert "openai" in sys.modules
"""


def test_the_first_call_imports_nothing_of_the_sdk_on_trios_thread() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True)
    found = {name.partition(".")[0] for name in done.stdout.splitlines()}
    assert not found & {"openai", "anyio", "pydantic", "httpx", "httpx2"}


async def test_calls_that_are_first_at_once_share_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[openai.AsyncOpenAI] = []

    class Counted(openai.AsyncOpenAI):
        def __init__(self, **given: object) -> None:
            super().__init__(**given)  # type: ignore[arg-type]  # as the adapter calls it
            made.append(self)

    monkeypatch.setattr(openai, "AsyncOpenAI", Counted)
    go = trio.Event()
    async with strict_stub(lambda _: Wait(go, "Hello.")) as stub:
        model = OpenAIModel("m", base_url=stub.url, api_key="sk-test")
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(model.agenerate, [Human("1", "Hello?")], [], ModelConfig())
            await stub.wait_requests(10)
            go.set()
        await model.aclose()
        # Closed, it opens anew.
        assert (await model.agenerate([Human("1", "Hello?")], [], ModelConfig())).message.content == "Hello."
        await model.aclose()
    assert len(made) == 2
