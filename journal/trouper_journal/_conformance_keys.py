"""The promises of a keeper of data keys, one function each, for whoever provides one.

Each promise is checked on a keeper of its own. A broken promise raises AssertionError with a message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from trouper_journal._keystore import DataKey, KeyStore
from trouper_journal._records import Withheld

OpenKeys: TypeAlias = Callable[[], KeyStore]
"""Opens one keeper; called again, it opens the same once more, as another process would."""

NewKeys: TypeAlias = Callable[[], OpenKeys]
"""Makes a keeper without keys."""

KeyPromise: TypeAlias = Callable[[OpenKeys], Awaitable[None]]

_JOURNAL: Final = b"one journal's id"
_OTHER: Final = b"another one's id"


async def check_key_store(new_keys: NewKeys) -> None:
    """Check every promise, each on a keeper of its own.

    Args:
        new_keys: Makes a keeper without keys and gives what opens it.

    Raises:
        AssertionError: A promise is broken; its name is in the note.
    """
    for promise in KEY_PROMISES:
        try:
            await promise(new_keys())
        except AssertionError as error:
            error.add_note(f"promise: {promise.__name__}")
            raise


async def makes_one_key_for_each_domain(open_keys: OpenKeys) -> None:
    """A domain of a journal has one active key, the same for everybody; others have others."""
    first, second = open_keys(), open_keys()
    key = await first.obtain(_JOURNAL, "room")
    assert (key.journal, key.domain) == (_JOURNAL, "room"), "it names what it is for"
    assert len(key.secret) == 32, "a key has 32 bytes"
    assert await second.obtain(_JOURNAL, "room") == key, "another process gets the same"
    assert await second.find(key.id) == key, "it is found by its name"
    others = [await second.obtain(_OTHER, "room"), await second.obtain(_JOURNAL, "hall")]
    assert len({key.secret, *(other.secret for other in others)}) == 3, "others have others"
    assert len({key.id, *(other.id for other in others)}) == 3, "under other names"


async def makes_one_key_at_once(open_keys: OpenKeys) -> None:
    """Many who need a key of a domain at the same moment get the same."""
    keys = open_keys()
    found: list[DataKey] = []

    async def obtain() -> None:
        found.append(await keys.obtain(_JOURNAL, "room"))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(obtain)
    assert len({key.id for key in found}) == 1, "one key"


async def says_what_it_does_not_have(open_keys: OpenKeys) -> None:
    """A name that nobody knows is missing, and no error."""
    found = await open_keys().find("nobody knows")
    assert isinstance(found, Withheld), "there is no such key"
    assert found.reason == "missing", "and never was"
    assert list(await open_keys().entries(_JOURNAL, "room")) == [], "nor of a domain that never had one"
    assert list(await open_keys().retire(_JOURNAL, "room")) == [], "nothing is retired"
    assert list(await open_keys().destroy(["nobody knows"])) == [], "nothing is destroyed"


async def retires_without_losing(open_keys: OpenKeys) -> None:
    """A retired key is found, and not obtained; the domain gets a new one."""
    keys = open_keys()
    old = await keys.obtain(_JOURNAL, "room")
    assert list(await open_keys().retire(_JOURNAL, "room")) == [old.id], "it names the key"
    new = await keys.obtain(_JOURNAL, "room")
    assert new.id != old.id, "the next one is another"
    assert await keys.find(old.id) == old, "the old one still opens"
    states = [(entry.id, entry.state) for entry in await keys.entries(_JOURNAL, "room")]
    assert states == [(old.id, "retired"), (new.id, "active")], f"oldest first, not {states}"
    assert set(await keys.retire(_JOURNAL, "room")) == {old.id, new.id}, "all that are not destroyed"


async def destroys_for_good(open_keys: OpenKeys) -> None:
    """A destroyed key is erased for everybody, and its stamp shows it; others stay."""
    keys, other = open_keys(), open_keys()
    key, kept = await keys.obtain(_JOURNAL, "room"), await keys.obtain(_JOURNAL, "hall")
    stamp = keys.stamp()
    await other.retire(_JOURNAL, "room")
    assert list(await other.destroy([key.id, "nobody knows"])) == [key.id], "it says what it destroyed"
    assert stamp is None or keys.stamp() != stamp, "the stamp has changed"
    for each in (keys, other, open_keys()):
        found = await each.find(key.id)
        assert isinstance(found, Withheld), "nobody has it any more"
        assert found.reason == "erased", "and everybody knows why"
        assert await each.find(kept.id) == kept, "others stay"
    assert [entry.state for entry in await keys.entries(_JOURNAL, "room")] == ["destroyed"], "it is remembered"
    assert list(await keys.destroy([key.id])) == [], "twice is once"
    assert (await keys.obtain(_JOURNAL, "room")).id != key.id, "the domain's next key is another"


KEY_PROMISES: Final[tuple[KeyPromise, ...]] = (
    makes_one_key_for_each_domain,
    makes_one_key_at_once,
    says_what_it_does_not_have,
    retires_without_losing,
    destroys_for_good,
)
"""Every promise, for a test runner that wants them one by one."""
