"""Sealed and erased runs: folded without keys and not compared, compared with them, and never a failure."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

from trouper import Agent, Principal, Runtime, tool
from trouper.audit import StreamReplay, assert_replays, replay_streams
from trouper.projections import SpendProjection, open_projection, spending
from trouper.runtime.erasing import erase_session
from trouper.testing import ScriptedModel, call
from trouper_journal.sealing import FileKeyStore


@tool(effect="read_only")
def lookup(name: str) -> str:
    """Read a record."""
    return f"{name} is well " * 5000


async def replayed(path: Path, keys: FileKeyStore | None = None, jobs: int = 1) -> dict[str, StreamReplay]:
    async with aclosing(replay_streams(path, keys=keys, jobs=jobs)) as results:
        return {each.stream: each async for each in results if each.run is not None}


async def test_what_keys_are_worth(tmp_path: Path) -> None:
    path, keys = tmp_path / "j.db", FileKeyStore(tmp_path / "j.keys")
    model = ScriptedModel([call("lookup", name="Amelia"), "Amelia is well."], by_turn=True)
    desk = Agent("desk", tools=[lookup], model=model)
    async with Runtime.open(path, agents=[desk], keys=keys) as runtime:
        gone = await (await runtime.session("desk", "one").send("How is Amelia?")).wait()
        kept = await (await runtime.session("desk", "two").send("And now?")).wait()
        await erase_session(runtime.journal, "one", by=Principal("maria"), reason="asked")
    erased, sealed = f"run/{gone.run}", f"run/{kept.run}"
    without = await replayed(path)
    assert [each.not_compared for each in without.values()] == ["erased", "erased"]
    assert all(each.ok and each.records > 5 for each in without.values())
    opened = await replayed(path, keys)
    assert await replayed(path, keys, jobs=2) == opened
    # A master key that is in no file is not handed on.
    secret = FileKeyStore(tmp_path / "j.keys", bytes.fromhex((tmp_path / "j.keys.master").read_text().strip()))
    assert await replayed(path, secret, jobs=2) == opened
    assert {name: (each.ok, each.not_compared) for name, each in opened.items()} == {
        erased: (True, "erased"),
        sealed: (True, None),
    }
    assert (assert_replays(path, [desk]).not_compared, assert_replays(path, [desk], keys=keys).not_compared) == (2, 1)


async def test_what_was_spent_can_be_told_after_an_erasure(tmp_path: Path) -> None:
    keys = FileKeyStore(tmp_path / "j.keys")
    desk = Agent("desk", tools=[lookup], model=ScriptedModel([call("lookup", name="A"), "Well."], name="m"))
    async with Runtime.open(tmp_path / "j.db", agents=[desk], keys=keys) as runtime:
        result = await (await runtime.session("desk", "one").send("How is A?")).wait()
        await erase_session(runtime.journal, "one", by=Principal("maria"), reason="asked")
        async with open_projection(runtime.journal, SpendProjection()) as projected:
            await projected.catch_up()
            (row,) = await spending(projected, ("agent", "model"))
    assert (row.agent, row.model, row.model_calls, row.tool_calls) == ("desk", "m", 2, 1)
    assert (row.input_tokens, row.output_tokens) == (result.usage.input_tokens, result.usage.output_tokens)
