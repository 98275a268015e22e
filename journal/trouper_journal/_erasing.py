"""Destroys the keys of a domain, in the order that loses neither a record nor the trace of who did it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from trouper_journal._keystore import KeyStoreError
from trouper_journal._sealer import ERASURES

if TYPE_CHECKING:
    from trouper_journal._journal import Journal

Told = Callable[[Sequence[str]], object]
"""Makes an event of the names of the keys."""


async def destroy_keys(
    journal: Journal, domain: str, *, ordered: Told, carried_out: Told, require: Mapping[str, int]
) -> Sequence[str]:
    """Make all content of an erasure domain unreadable, wherever there are copies of the journal.

    First the domain's key is retired, so that nothing more is sealed with it; then it is recorded what is to happen;
    then the keys are destroyed, and that is recorded too. Interrupted at any point, it can be called again.

    Args:
        journal: A journal that was opened with keys.
        domain: Name of the erasure domain.
        ordered: The event for the stream ``system/erasures`` that tells what is to be destroyed, and on whose word.
        carried_out: The event that tells that it was.
        require: Versions of the domain's streams that were looked at: nothing is recorded or destroyed unless they
            still stand.

    Returns:
        Names of the keys that were destroyed; none where there were none.

    Raises:
        VersionConflict: A stream has moved on; nothing was destroyed.
        KeyStoreError: The journal has no keys, or they could not be destroyed.
        JournalError: The journal could not be written; nothing was destroyed unless the first event stands in it.
    """
    keys = journal.keys
    if keys is None:
        raise KeyStoreError("the journal was opened without keys, so that none can be destroyed")
    doomed = await keys.retire(journal.id, domain)
    if not doomed:
        return ()
    await journal.append(ERASURES, [ordered(doomed)], require=require)
    await keys.destroy(doomed)
    if left := [entry.id for entry in await keys.entries(journal.id, domain) if _stands(entry.state, entry.id, doomed)]:
        raise KeyStoreError(f"the keys {', '.join(left)} of {domain} are still there: erase it again")
    await journal.append(ERASURES, [carried_out(doomed)])
    return doomed


def _stands(state: str, key_id: str, doomed: Sequence[str]) -> bool:
    return state != "destroyed" and key_id in doomed
