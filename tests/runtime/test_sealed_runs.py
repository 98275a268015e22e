"""Runs and sessions whose content is sealed: driven with keys, left alone without, and unreadable once erased."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from trouper import (
    REGISTRY,
    Agent,
    Commands,
    Judgement,
    Principal,
    Runtime,
    Task,
    ToolContext,
    WhatIf,
    tool,
)
from trouper.core.events import CancelRequested, ErasureCarriedOut, ErasureOrdered
from trouper.core.replay import check
from trouper.errors import ContentWithheld, ErasureRefused, ForkError, UnknownRun, UnknownSession
from trouper.runtime.erasing import erase_run, erase_session
from trouper.testing import ScriptedModel, call
from trouper_journal import ERASED, Journal
from trouper_journal.archive import beside, move_to_archive, open_archive, write_archive
from trouper_journal.sealing import FileKeyStore, KeyStoreError, MemoryKeyStore

SECRET = "patient Amelia Earhart"
MARIA = Principal("maria")


@tool(effect="read_only")
def records(name: str) -> str:
    """Read all records of somebody."""
    return f"{SECRET} {name} " * 3000


@tool(effect="idempotent_write", requires_approval=True)
def mail(text: str, *, ctx: ToolContext) -> str:
    """Send a mail."""
    return f"mailed {text} as {ctx.effect_key}"


def agents() -> list[Agent]:
    below = Agent(
        "archive",
        "You look up.",
        tools=[records],
        model=ScriptedModel([call("records", name="Amelia"), f"{SECRET} was found."], by_turn=True, name="below"),
        description="Looks up.",
    )
    top = Agent(
        "desk",
        "You help.",
        tools=[mail, below.as_tool()],
        model=ScriptedModel(
            [call("archive", input=f"Who is {SECRET}?"), call("mail", text=SECRET), f"All is well with {SECRET}."],
            by_turn=True,
            name="top",
        ),
    )
    talker = Agent("talker", "You talk.", model=ScriptedModel([f"Hello {SECRET}."] * 5, name="talker"))
    return [top, talker]


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[Runtime]:
    keys = FileKeyStore(folder / "a.keys")
    async with Runtime.open(folder / "a.db", agents(), keys=keys) as runtime:
        yield runtime


@asynccontextmanager
async def journal_of(folder: Path, *, keys: bool = True) -> AsyncIterator[Journal]:
    store = FileKeyStore(folder / "a.keys") if keys else None
    async with Journal.open(folder / "a.db", registry=REGISTRY, keys=store) as journal:
        yield journal


async def waiting(runtime: Runtime) -> str:
    """Submit, and wait until the mail waits for a person; the run."""
    async with runtime.journal.news() as news:
        run = await runtime.submit("desk", f"Help {SECRET}", by="maria")
        while not (await runtime.commands.state(run.id)).awaiting:
            await news.wait()
    return run.id


async def finished(folder: Path) -> str:
    async with house(folder) as runtime:
        run = await waiting(runtime)
        await runtime.commands.decide(f"{run}/1.0", Judgement("approve", MARIA, f"knows {SECRET}"))
        assert (await runtime.run(run).wait()).output == f"All is well with {SECRET}."
        return run


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("a.db*"))


async def test_a_run_goes_on_after_a_restart_and_leaves_nothing_readable_in_the_file(tmp_path: Path) -> None:
    async with house(tmp_path) as runtime:
        run = await waiting(runtime)
    async with house(tmp_path) as runtime:
        await runtime.commands.decide(f"{run}/1.0", Judgement("approve", MARIA, f"knows {SECRET}"))
        result = await runtime.run(run).wait()
        assert result.output == f"All is well with {SECRET}."
    assert SECRET.encode() not in stored(tmp_path)
    assert b"maria" not in stored(tmp_path)
    async with journal_of(tmp_path) as journal:
        assert (await journal.verify()).ok
        # One key for the whole tree, and none for what is nobody's.
        sealed = {record.key_id async for record in journal.read_all() if record.stream.startswith("run/")}
        assert len(sealed - {None}) == 1
        assert {record.key_id async for record in journal.read_all() if record.stream.startswith("def")} == {None}
        events = [journal.registry.decode(record) async for record in journal.read(f"run/{run}")]
        assert check(run, events)[1] is None


async def test_without_keys_a_runtime_leaves_a_sealed_run_and_drives_others(tmp_path: Path) -> None:
    async with house(tmp_path) as runtime:
        run = await waiting(runtime)
    async with Runtime.open(tmp_path / "a.db", agents()) as runtime:
        other = await runtime.submit("talker", "Hello")
        assert (await other.wait()).output == f"Hello {SECRET}."
        before = await runtime.journal.head(f"run/{run}")
        with pytest.raises(ContentWithheld, match="no key"):
            await runtime.commands.decide(f"{run}/1.0", Judgement("approve", MARIA))
        with pytest.raises(ContentWithheld):
            await runtime.commands.cancel(run, by=MARIA, reason=SECRET)
        assert await runtime.journal.head(f"run/{run}") == before
    async with house(tmp_path) as runtime:
        await runtime.commands.decide(f"{run}/1.0", Judgement("approve", MARIA))
        assert (await runtime.run(run).wait()).output == f"All is well with {SECRET}."


@pytest.mark.parametrize("lost", ["a.keys", "a.keys.master"])
async def test_lost_keys_are_a_typed_error_and_not_a_crash(tmp_path: Path, lost: str) -> None:
    async with house(tmp_path) as runtime:
        run = await waiting(runtime)
        await runtime.commands.decide(f"{run}/1.0", Judgement("approve", MARIA))
        await runtime.run(run).wait()
        async with runtime.journal.news() as news:
            open_run = (await runtime.submit("desk", "Again")).id
            while not (await runtime.commands.state(open_run)).awaiting:
                await news.wait()
    (tmp_path / lost).rename(tmp_path / "away")
    async with house(tmp_path) as runtime:
        # Somebody rings, so that the driver looks at it.
        await runtime.journal.append(f"run/{open_run}", [CancelRequested()])
        with pytest.raises(ContentWithheld) as caught:
            await runtime.run(open_run).wait()
        assert open_run in str(caught.value)
        assert (await runtime.commands.state(run)).ended


async def test_an_erased_run_is_gone_for_good_and_its_facts_stay(tmp_path: Path) -> None:
    run = await finished(tmp_path)
    backup = tmp_path / "backup.db"
    backup.write_bytes((tmp_path / "a.db").read_bytes())
    async with journal_of(tmp_path) as journal:
        found = await erase_run(journal, run, by=MARIA, reason="she asked us to")
        assert len(found.keys) == 1
        assert found.runs == (run, f"{run}~0.0")
        assert (found.plain, found.copies) == (0, ())
        state = await Commands(journal).state(run)
        assert state.erased
        assert state.ended
        assert state.steps == 5
        first = await anext(aiter(journal.read(f"run/{run}")))
        assert journal.registry.decode(first).input is ERASED  # type: ignore[attr-defined]  # run.submitted
        events = [journal.registry.decode(record) async for record in journal.read(f"run/{run}")]
        assert check(run, events)[1] is None
        assert (await journal.verify()).ok
        ordered, done = [journal.registry.decode(record) async for record in journal.read("system/erasures")]
        assert isinstance(ordered, ErasureOrdered)
        assert (ordered.by, ordered.reason, ordered.runs) == (MARIA, "she asked us to", 2)
        assert isinstance(done, ErasureCarriedOut)
        assert done.keys == ordered.keys == found.keys
        again = await erase_run(journal, run, by=MARIA, reason=None)
        assert again.keys == ()
    keys = FileKeyStore(tmp_path / "a.keys")
    async with Journal.open(backup, registry=REGISTRY, keys=keys) as journal:
        assert (await Commands(journal).state(run)).erased
    async with house(tmp_path) as runtime:
        result = await runtime.run(run).wait()
        assert result.status == "succeeded"
        assert result.output is ERASED
        with pytest.raises(ForkError, match="erased"):
            await runtime.fork(run, WhatIf(say="And now?"))


async def test_what_is_under_way_is_not_erased(tmp_path: Path) -> None:
    async with house(tmp_path) as runtime:
        run = await waiting(runtime)
        with pytest.raises(ErasureRefused, match="is not over: it is awaiting_approval"):
            await erase_run(runtime.journal, run, by=MARIA, reason=None)
        with pytest.raises(ErasureRefused, match=f"below run {run}"):
            await erase_run(runtime.journal, f"{run}~0.0", by=MARIA, reason=None)
        with pytest.raises(UnknownRun):
            await erase_run(runtime.journal, "nobody", by=MARIA, reason=None)
        with pytest.raises(UnknownSession):
            await erase_session(runtime.journal, "nobody", by=MARIA, reason=None)
        assert not (await runtime.commands.state(run)).erased


async def test_a_session_is_erased_as_a_whole_beside_a_living_runtime(tmp_path: Path) -> None:
    async with house(tmp_path) as runtime, journal_of(tmp_path) as other:
        session = runtime.session("talker", "s1")
        runs = [(await (await session.send(f"{SECRET} {turn}")).wait()).run for turn in range(2)]
        elsewhere = await (await runtime.session("talker", "s2").send("hello")).wait()
        assert SECRET.encode() not in stored(tmp_path)
        with pytest.raises(ErasureRefused, match="turn of session s1: erase the session"):
            await erase_run(other, runs[1], by=MARIA, reason=None)
        fork = await (await runtime.run(runs[0]).fork(WhatIf(say="And now?"))).wait()
        found = await erase_session(other, "s1", by=MARIA, reason="the customer left")
        assert found.runs == tuple(runs)
        assert len(found.keys) == 1
        assert found.copies == (fork.run,)
        assert [(await runtime.commands.state(run)).erased for run in runs] == [True, True]
        with pytest.raises(ContentWithheld, match="session s1"):
            await session.send("Are you still there?")
        assert not (await runtime.commands.state(elsewhere.run)).erased
        assert (await (await runtime.session("talker", "s2").send("go on")).wait()).output == f"Hello {SECRET}."
        assert (await runtime.journal.verify()).ok


async def test_a_run_under_way_keeps_what_it_starts_from(tmp_path: Path) -> None:
    run = await finished(tmp_path)
    async with journal_of(tmp_path) as journal:
        commands = Commands(journal)
        fork = await commands.fork(run, WhatIf(say="And now?"))
        with pytest.raises(ErasureRefused, match=f"run {fork.run}, which starts from it, is not over"):
            await erase_run(journal, run, by=MARIA, reason=None)
        assert not (await commands.state(run)).erased


async def test_a_run_whose_history_is_lost_is_left(tmp_path: Path) -> None:
    run = await finished(tmp_path)
    async with journal_of(tmp_path) as journal:
        fork = await Commands(journal).fork(run, WhatIf(say="And now?", agent="talker"))
        await journal.keys.destroy(await journal.keys.retire(journal.id, f"run/{run}"))  # type: ignore[union-attr]  # it has
    async with house(tmp_path) as runtime:
        with pytest.raises(ContentWithheld, match=f"history of run {run}"):
            await runtime.run(fork.run).wait()


async def test_a_sealed_session_is_not_continued_in_plain(tmp_path: Path) -> None:
    async with house(tmp_path) as runtime:
        first = await runtime.session("desk", "s1").send(f"Help {SECRET}")
    async with journal_of(tmp_path, keys=False) as journal:
        with pytest.raises(ContentWithheld, match="session s1"):
            await Commands(journal).send("s1", Task("desk", f"More of {SECRET}"))
        assert not await journal.head("run/other")
    assert SECRET.encode() not in stored(tmp_path)
    async with house(tmp_path) as runtime:
        assert not (await runtime.commands.state(first.id)).erased


async def test_an_erasure_that_was_cut_off_at_its_very_end_is_recorded_by_the_next(tmp_path: Path) -> None:
    run = await finished(tmp_path)

    class CutOff(FileKeyStore):
        async def destroy(self, key_ids: Sequence[str]) -> Sequence[str]:
            await super().destroy(key_ids)
            raise KeyStoreError("the power is gone")

    keys = CutOff(tmp_path / "a.keys")
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, keys=keys) as journal:
        with pytest.raises(KeyStoreError):
            await erase_run(journal, run, by=MARIA, reason=None)
    async with journal_of(tmp_path) as journal:
        for _ in range(2):
            assert (await erase_run(journal, run, by=MARIA, reason=None)).keys == ()
        told = [journal.registry.decode(record) async for record in journal.read("system/erasures")]
        assert [type(each) for each in told] == [ErasureOrdered, ErasureCarriedOut]


async def test_an_erasure_that_was_cut_off_is_recorded_though_there_is_another_key_by_now(tmp_path: Path) -> None:
    run = await finished(tmp_path)

    class CutOff(FileKeyStore):
        async def destroy(self, key_ids: Sequence[str]) -> Sequence[str]:
            await super().destroy(key_ids)
            raise KeyStoreError("the power is gone")

    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, keys=CutOff(tmp_path / "a.keys")) as journal:
        with pytest.raises(KeyStoreError):
            await erase_run(journal, run, by=MARIA, reason=None)
        await FileKeyStore(tmp_path / "a.keys").obtain(journal.id, f"run/{run}")
    async with journal_of(tmp_path) as journal:
        assert len((await erase_run(journal, run, by=MARIA, reason=None)).keys) == 1
        told = [journal.registry.decode(record) async for record in journal.read("system/erasures")]
        ordered = {key for each in told if isinstance(each, ErasureOrdered) for key in each.keys}
        assert ordered == {key for each in told if isinstance(each, ErasureCarriedOut) for key in each.keys}
        assert len(ordered) == 2


async def test_what_was_written_in_plain_is_counted_and_stays(tmp_path: Path) -> None:
    async with Runtime.open(tmp_path / "a.db", agents()) as runtime:
        plain = await (await runtime.submit("talker", SECRET)).wait()
        session = runtime.session("talker", "s1")
        await (await session.send("in plain")).wait()
    async with house(tmp_path) as runtime:
        await (await runtime.session("talker", "s1").send("sealed")).wait()
        with pytest.raises(ErasureRefused, match="stored in plain"):
            await erase_run(runtime.journal, plain.run, by=MARIA, reason=None)
        found = await erase_session(runtime.journal, "s1", by=MARIA, reason=None)
        assert found.records
        assert found.plain


async def test_without_the_right_keys_nothing_is_erased(tmp_path: Path) -> None:
    run = await finished(tmp_path)
    async with journal_of(tmp_path, keys=False) as journal:
        with pytest.raises(ErasureRefused, match="it is sealed, and the journal was opened without keys"):
            await erase_run(journal, run, by=MARIA, reason=None)
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, keys=MemoryKeyStore()) as journal:
        with pytest.raises(ErasureRefused, match="know nothing of it"):
            await erase_run(journal, run, by=MARIA, reason=None)
        assert [record async for record in journal.read("system/erasures")] == []
    async with journal_of(tmp_path) as journal:
        assert not (await Commands(journal).state(run)).erased


async def test_a_command_repeated_after_an_erasure_says_why_it_cannot_be_compared(tmp_path: Path) -> None:
    async with house(tmp_path) as runtime:
        run = await runtime.submit("talker", SECRET, command_id="c1")
        await run.wait()
        again = await runtime.submit("talker", SECRET, command_id="c1")
        assert again.repeated
        assert again.id == run.id
        await erase_run(runtime.journal, run.id, by=MARIA, reason=None)
        with pytest.raises(ContentWithheld, match="submit:c1"):
            await runtime.submit("talker", SECRET, command_id="c1")


async def test_what_is_in_an_archive_is_erased_with_the_rest(tmp_path: Path) -> None:
    run = await finished(tmp_path)
    target = tmp_path / "old.archive"
    streams = [f"run/{run}", f"run/{run}~0.0"]
    async with journal_of(tmp_path) as journal, journal.drive("archiving"):
        await journal.append("system/other", [CancelRequested()])
        await write_archive(journal, str(target), [streams], new_id=bytes(16), now=0)
        await move_to_archive(journal, str(target), at=await journal.position(), allowed=lambda _: True)

    @asynccontextmanager
    async def beside_archive() -> AsyncIterator[Journal]:
        keys = FileKeyStore(tmp_path / "a.keys")
        async with (
            open_archive(str(target)) as archive,
            Journal.open(tmp_path / "a.db", registry=REGISTRY, wrap=beside(archive), keys=keys) as journal,
        ):
            yield journal

    async with beside_archive() as journal:
        assert (await Commands(journal).state(run)).output == f"All is well with {SECRET}."
    async with journal_of(tmp_path) as journal:
        found = await erase_run(journal, run, by=MARIA, reason=None)
        assert len(found.keys) == 1
        assert (found.records, found.plain) == (0, 0)
        assert found.archived
    async with beside_archive() as journal:
        assert (await Commands(journal).state(run)).erased
        assert (await journal.verify()).ok
