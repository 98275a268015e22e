"""Sealed journals: what is stored, who can read it, and what is left when keys are destroyed, in both stores."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import attrs
import pytest
import trio

from trouper_journal import (
    ERASED,
    Content,
    Domain,
    EventRegistry,
    IdempotencyConflict,
    Journal,
    JournalCorrupt,
    Key,
    MemoryStore,
    MissingExtra,
    Opened,
    Plain,
    Record,
    Store,
    Value,
    VersionConflict,
    Withheld,
    Write,
    event,
    fold,
)
from trouper_journal.sealing import (
    ERASURES,
    DataKey,
    KeyStore,
    KeyStoreError,
    MemoryKeyStore,
    destroy_keys,
    references_of,
)
from trouper_journal.testing import PROMISES, OpenJournal

SECRET = "what nobody else may know"
BIG = [SECRET] * 3000


@event("sealed.noted")
@attrs.frozen(slots=False, repr=False, eq=False)
class Noted(Plain):
    number: int
    text: Content[Value] = None
    more: Content[Value] = None


@event("sealed.bare")
@attrs.frozen(slots=False, repr=False, eq=False)
class Bare(Plain):
    number: int


@event("sealed.erased")
@attrs.frozen(slots=False, repr=False, eq=False)
class Told(Plain):
    what: str
    keys: tuple[str, ...]


REGISTRY = EventRegistry([Noted, Bare, Told])
ROOM = Domain("room/1", b"s" * 32)
OTHER = Domain("room/2", b"t" * 32)

Opener = Callable[[KeyStore | None], AbstractAsyncContextManager[Journal]]


@pytest.fixture(params=["memory", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens one storage again and again, with these keys or those."""
    if request.param == "sqlite":
        return lambda keys: Journal.open(tmp_path / "sealed.db", registry=REGISTRY, keys=keys)
    store = MemoryStore(b"memory journal 1")
    return lambda keys: Journal.over(store, registry=REGISTRY, keys=keys)


async def erase(journal: Journal, domain: str, **require: int) -> None:
    await destroy_keys(
        journal,
        domain,
        ordered=lambda keys: Told("ordered", tuple(keys)),
        carried_out=lambda keys: Told("carried out", tuple(keys)),
        require=require,
    )


async def events_of(journal: Journal, stream: str) -> list[object]:
    return [journal.registry.decode(record) async for record in journal.read(stream)]


async def raw(store: Store) -> bytes:
    """All content and large values as stored."""
    records = await store.read_all(0, 1000)
    digests = {reference.digest for record in records for reference in references_of(record)}
    return b"".join(record.content + record.facts + record.meta for record in records) + b"".join(
        (await store.values(digests)).values()
    )


def new_sealed(folder: Path, store: str) -> OpenJournal:
    keys = MemoryKeyStore()
    if store == "sqlite":
        return lambda registry: Journal.open(folder / "a.db", registry=registry, keys=keys)
    memory = MemoryStore(b"memory journal 2")
    return lambda registry: Journal.over(memory, registry=registry, keys=keys)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_every_promise_is_kept_with_keys(
    promise: Callable[[OpenJournal], Awaitable[None]], store: str, tmp_path: Path
) -> None:
    if promise.__name__ != "keeps_snapshots_as_a_cache":
        await promise(new_sealed(tmp_path, store))


async def test_content_is_stored_sealed_and_reads_as_written(opener: Opener) -> None:
    events = [Noted(1, SECRET), Bare(2), Noted(3, BIG, BIG), Noted(4)]
    async with opener(keys := MemoryKeyStore()) as journal:
        done = await journal.commit([Write("a", events, domain=ROOM), Write("b", [Noted(5, SECRET)], domain=ROOM)])
        assert SECRET.encode() not in await raw(journal.store)
        assert [record.key_id is None for record in done.records] == [False, True, False, False, False]
        assert [journal.registry.decode(record) for record in done.records] == [*events, Noted(5, SECRET)]
    async with opener(keys) as journal:
        assert await events_of(journal, "a") == events
        assert [journal.registry.decode(record) for record in await journal.read_page("a")] == events
        assert [record async for record in journal.read("a")] == list(done.records[:4])
        assert fold(REGISTRY, await journal.read_page("b"), lambda _, told: told, None) == Noted(5, SECRET)
        async for record in journal.tail():
            assert isinstance(record.opened, Opened) is (record.key_id is not None)
            if record.position == 5:
                break
        assert (await journal.verify()).ok
        assert (await journal.verify()).values == 1


async def test_without_keys_everything_but_content_can_be_read_and_verified(opener: Opener) -> None:
    async with opener(MemoryKeyStore()) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET), Noted(2, BIG), Bare(3)], domain=ROOM)])
    async with opener(None) as journal:
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED), Noted(2, ERASED, ERASED), Bare(3)]
        assert [record.opened async for record in journal.read("a")] == [None] * 3
        found = await journal.verify()
        assert found.ok
        assert found.values == 1


async def test_what_names_no_domain_is_stored_in_plain(opener: Opener) -> None:
    async with opener(keys := MemoryKeyStore()) as journal:
        await journal.append("definition", [Noted(1, "the same for all")])
        assert keys.stamp() == 0
    async with opener(None) as journal:
        assert await events_of(journal, "definition") == [Noted(1, "the same for all")]


async def test_a_destroyed_key_takes_its_domain_along_and_no_other(opener: Opener) -> None:
    async with opener(keys := MemoryKeyStore()) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET), Noted(2, BIG)], domain=ROOM)])
        await journal.commit([Write("b", [Noted(3, SECRET)], domain=OTHER)])
        await erase(journal, ROOM.name, a=2)
        records = await journal.read_page("a")
        assert [journal.registry.decode(record) for record in records] == [
            Noted(1, ERASED, ERASED),
            Noted(2, ERASED, ERASED),
        ]
        assert [record.opened.reason for record in records if isinstance(record.opened, Withheld)] == ["erased"] * 2
        assert await events_of(journal, "b") == [Noted(3, SECRET)]
        assert (await journal.verify()).ok
        told = await events_of(journal, ERASURES)
        assert [each.what for each in told if isinstance(each, Told)] == ["ordered", "carried out"]
    async with opener(keys) as journal:
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED), Noted(2, ERASED, ERASED)]


async def test_what_comes_after_an_erasure_has_a_key_of_its_own(opener: Opener) -> None:
    async with opener(MemoryKeyStore()) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        await erase(journal, ROOM.name)
        await journal.commit([Write("a", [Noted(2, "late")], domain=ROOM)])
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED), Noted(2, "late")]
        await erase(journal, ROOM.name)
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED), Noted(2, ERASED, ERASED)]


async def test_an_erasure_in_another_process_is_noticed(opener: Opener) -> None:
    keys = MemoryKeyStore()
    async with opener(keys) as daemon, opener(keys) as other:
        await daemon.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        assert await events_of(daemon, "a") == [Noted(1, SECRET)]
        await erase(other, ROOM.name)
        assert await events_of(daemon, "a") == [Noted(1, ERASED, ERASED)]
        await daemon.commit([Write("a", [Noted(2, "late")], domain=ROOM)])
        assert await events_of(daemon, "a") == [Noted(1, ERASED, ERASED), Noted(2, "late")]
        assert (await daemon.verify()).ok


async def test_no_record_is_sealed_with_a_key_that_is_being_destroyed(opener: Opener) -> None:
    """The erasure stands between sealing and writing: the commit is sealed anew, with a key that lives."""

    class Slow(MemoryKeyStore):
        asked: int = 0

        async def obtain(self, journal: bytes, domain: str) -> DataKey:
            key = await super().obtain(journal, domain)
            self.asked += 1
            if self.asked == 2:
                await erase(other, ROOM.name)
            return key

    async with opener(keys := Slow()) as journal, opener(keys) as other:
        await other.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        await journal.commit([Write("a", [Noted(2, "late")], domain=ROOM)], require={"a": 1})
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED), Noted(2, "late")]
        assert keys.asked == 3


async def test_a_key_that_was_asked_for_before_an_erasure_is_not_kept_for_after_it(opener: Opener) -> None:
    """The answer of a slow keeper of keys comes when the erasure was noticed already: by another commit."""

    class Slow(MemoryKeyStore):
        holds: trio.Event | None = None

        async def obtain(self, journal: bytes, domain: str) -> DataKey:
            key = await super().obtain(journal, domain)
            if (held := self.holds) is not None:
                self.holds = None
                reached.set()
                await held.wait()
            return key

    reached = trio.Event()
    async with opener(keys := Slow()) as journal, opener(keys) as other:

        async def note(stream: str, number: int, domain: Domain = ROOM) -> None:
            await journal.commit([Write(stream, [Noted(number, "late")], domain=domain)])

        await other.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        keys.holds = held = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, "late 0", 0)
            await reached.wait()
            await erase(other, ROOM.name)
            # Its commit is refused, because of the erasure, and looks everything up again.
            await note("b", 2, Domain("room/2", b"s"))
            held.set()
            for number in range(1, 10):
                nursery.start_soon(note, f"late {number}", number)
        for number in range(10):
            assert await events_of(journal, f"late {number}") == [Noted(number, "late")]


async def test_a_stream_that_moved_on_is_not_erased(opener: Opener) -> None:
    async with opener(MemoryKeyStore()) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        await journal.commit([Write("a", [Noted(2, SECRET)], domain=ROOM)])
        with pytest.raises(VersionConflict):
            await erase(journal, ROOM.name, a=1)
        assert await events_of(journal, "a") == [Noted(1, SECRET), Noted(2, SECRET)]
        assert await events_of(journal, ERASURES) == []
        await erase(journal, ROOM.name, a=2)
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED), Noted(2, ERASED, ERASED)]


STEPS = ["retire", "retired", "ordered", "destroy", "destroyed", "carried out"]


@pytest.mark.parametrize("step", STEPS)
async def test_an_erasure_may_end_at_any_step_and_be_done_again(step: str, opener: Opener) -> None:
    class PowerFailure(Exception):
        pass

    def reach(here: str) -> None:
        if here == step:
            raise PowerFailure

    class Failing(MemoryKeyStore):
        async def retire(self, journal: bytes, domain: str) -> Sequence[str]:
            reach("retire")
            found = await super().retire(journal, domain)
            reach("retired")
            return found

        async def destroy(self, key_ids: Sequence[str]) -> Sequence[str]:
            reach("destroy")
            found = await super().destroy(key_ids)
            reach("destroyed")
            return found

    def told(what: str, keys: Sequence[str]) -> Told:
        reach(what)
        return Told(what, tuple(keys))

    async with opener(keys := Failing()) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        with pytest.raises(PowerFailure):
            await destroy_keys(
                journal,
                ROOM.name,
                ordered=lambda keys: told("ordered", keys),
                carried_out=lambda keys: told("carried out", keys),
                require={"a": 1},
            )
    gone, ended, step = step in STEPS[4:], step, "none"
    async with opener(keys) as journal:
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED) if gone else Noted(1, SECRET)]
        said = [each.what for each in await events_of(journal, ERASURES) if isinstance(each, Told)]
        # Nothing is destroyed before it stands in the journal that it is going to be.
        assert said == (["ordered"] if ended in STEPS[3:] else [])
        # Nobody is kept from writing, and the next one makes an end of it.
        await journal.commit([Write("a", [Noted(2, "late")], domain=ROOM)])
        await erase(journal, ROOM.name)
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED), Noted(2, ERASED, ERASED)]
        last = (await events_of(journal, ERASURES))[-1]
        assert isinstance(last, Told)
        assert last.what == "carried out"
        assert (await journal.verify()).ok


async def test_an_interrupted_erasure_is_completed_by_the_next(opener: Opener) -> None:
    class Failing(MemoryKeyStore):
        fails = True

        async def destroy(self, key_ids: Sequence[str]) -> Sequence[str]:
            if self.fails:
                raise KeyStoreError("the power is gone")
            return await super().destroy(key_ids)

    async with opener(keys := Failing()) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        with pytest.raises(KeyStoreError):
            await erase(journal, ROOM.name)
        assert await events_of(journal, "a") == [Noted(1, SECRET)]
        keys.fails = False
        await erase(journal, ROOM.name)
        assert await events_of(journal, "a") == [Noted(1, ERASED, ERASED)]
        told = [each.what for each in await events_of(journal, ERASURES) if isinstance(each, Told)]
        assert told == ["ordered", "ordered", "carried out"]


async def test_without_a_key_nothing_is_written(opener: Opener) -> None:
    class Locked(MemoryKeyStore):
        async def obtain(self, journal: bytes, domain: str) -> DataKey:
            raise KeyStoreError("nobody has the master key")

    async with opener(Locked()) as journal:
        with pytest.raises(KeyStoreError):
            await journal.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        await journal.commit([Write("a", [Bare(1)], domain=ROOM)])
        assert await events_of(journal, "a") == [Bare(1)]


async def test_keys_that_are_lost_are_a_reason_and_not_an_error(opener: Opener) -> None:
    async with opener(MemoryKeyStore()) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
    async with opener(MemoryKeyStore()) as journal:
        (record,) = await journal.read_page("a")
        assert isinstance(record.opened, Withheld)
        assert record.opened.reason == "missing"
        assert record.key_id is not None
        assert record.key_id in record.opened.details
        assert journal.registry.decode(record) == Noted(1, ERASED, ERASED)


async def test_commits_are_repeated_by_key_and_make_no_further_data_key(opener: Opener) -> None:
    async with opener(keys := MemoryKeyStore()) as journal:
        first = await journal.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)], key=Key("k", b"d"))
        before = keys.stamp()
        again = await journal.commit([Write("b", [Noted(2, SECRET)], domain=OTHER)], key=Key("k", b"d"))
        assert again.repeated
        assert again.records == first.records
        assert [journal.registry.decode(record) for record in again.records] == [Noted(1, SECRET)]
        with pytest.raises(IdempotencyConflict):
            await journal.commit([Write("b", [Noted(2, SECRET)], domain=OTHER)], key=Key("k", b"e"))
        assert keys.stamp() == before
        found = await journal.find("k")
        assert found is not None
        assert [journal.registry.decode(record) for record in found.records] == [Noted(1, SECRET)]


async def test_equal_large_values_of_a_domain_are_stored_once(opener: Opener) -> None:
    async with opener(keys := MemoryKeyStore()) as journal:
        await journal.commit([Write("a", [Noted(1, BIG)], domain=ROOM)])
    async with opener(keys) as journal:
        await journal.commit([Write("a", [Noted(2, BIG)], domain=ROOM), Write("b", [Noted(3, BIG)], domain=OTHER)])
        first, second, third = [references_of(record) async for record in journal.read_all()]
        assert first == second
        assert first != third


async def test_a_changed_seal_is_named_by_its_position(tmp_path: Path) -> None:
    keys = MemoryKeyStore()
    async with Journal.open(tmp_path / "a.db", registry=REGISTRY, keys=keys) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET), Noted(2, SECRET)], domain=ROOM)])
        records = await journal.store.read_stream("a", 0, 10)

    class Swapped(MemoryStore):
        async def read_stream(self, stream: str, after: int, limit: int) -> list[Record]:
            return [attrs.evolve(records[0], version=2, position=2, type="sealed.bare")]

    async with Journal.over(Swapped(journal.id), registry=REGISTRY, keys=keys) as journal:
        with pytest.raises(JournalCorrupt) as caught:
            await journal.read_page("a")
    assert caught.value.position == 2


async def test_damage_in_sealed_large_values_is_found_without_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with Journal.open(path, registry=REGISTRY, keys=MemoryKeyStore()) as journal:
        await journal.commit([Write("a", [Noted(1, BIG)], domain=ROOM)])
    database = sqlite3.connect(path)
    database.executescript(
        "DROP TRIGGER large_update; UPDATE large SET data = substr(data, 1, 40) || x'00' || substr(data, 42)"
    )
    database.close()
    async with Journal.open(path, registry=REGISTRY) as journal:
        (problem,) = (await journal.verify()).problems
        assert (problem.kind, problem.position) == ("value", 1)


def test_a_program_without_keys_does_not_load_what_seals() -> None:
    code = "import sys, trouper_journal; sys.exit(any('crypto' in name or '_sealer' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_snapshots_are_neither_kept_nor_used_with_keys(opener: Opener) -> None:
    async with opener(keys := MemoryKeyStore()) as journal:
        await journal.commit([Write("a", [Noted(1, SECRET)], domain=ROOM)])
        await journal.save_snapshot("a", 1, "code", SECRET.encode())
    async with opener(None) as journal:
        assert await journal.load_snapshot("a", "code") is None
        await journal.save_snapshot("a", 1, "code", b"without content")
    async with opener(keys) as journal:
        assert await journal.load_snapshot("a", "code") is None


async def test_many_at_once(opener: Opener) -> None:
    async with opener(MemoryKeyStore()) as journal:
        async with trio.open_nursery() as nursery:
            for number in range(60):
                write = Write(f"s{number}", [Noted(number, SECRET)], domain=Domain(f"room/{number % 7}", b"u" * 32))
                nursery.start_soon(journal.commit, [write])
        for number in range(60):
            assert await events_of(journal, f"s{number}") == [Noted(number, SECRET)]
        assert (await journal.verify()).ok


async def test_without_the_package_that_seals_nothing_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="pip install cryptography"):
        async with Journal.open(tmp_path / "j.db", keys=MemoryKeyStore()):
            raise AssertionError("it was opened")
    async with Journal.open(tmp_path / "j.db") as journal:
        assert (await journal.verify()).ok
