"""What is on record of the calls of runs that were forked."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from attrs import define, field, frozen

from trouper.core import events as ev
from trouper.core.conversation import Value
from trouper_journal import Journal, Plain, Printable, canonical


@frozen(slots=False, repr=False, eq=False)
class Receipt(Plain):
    """How a call of another run ended.

    Attributes:
        action: The call's whole id.
        event: Its receipt.
    """

    action: str
    event: ev.ActionReceipted


@define(eq=False, repr=False)
class Receipts(Printable):
    """How the calls of forked runs ended, by tool and arguments; read once, and kept for a while.

    Attributes:
        journal: The journal.
        room: For how many runs.
    """

    journal: Journal
    room: int = 16
    _kept: OrderedDict[str, dict[bytes, list[Receipt]]] = field(factory=OrderedDict, init=False)

    async def find(self, run: str, tool: str, arguments: Value, used: Sequence[str]) -> Receipt | None:
        """The first receipt of such a call that has not been used yet."""
        if run not in self._kept:
            self._kept[run] = await self._read(run)
            while len(self._kept) > self.room:
                self._kept.popitem(last=False)
        self._kept.move_to_end(run)
        alike = self._kept[run].get(_call(tool, arguments), [])
        return next((receipt for receipt in alike if receipt.action not in used), None)

    async def _read(self, run: str) -> dict[bytes, list[Receipt]]:
        planned: dict[str, bytes] = {}
        found: dict[bytes, list[Receipt]] = {}
        async for record in self.journal.read(f"run/{run}"):
            event = self.journal.registry.decode(record)
            match event:
                case ev.ActionPlanned(action=action, tool=tool, arguments=dict(arguments)):
                    planned[action] = _call(tool, arguments)
                case ev.ActionReceipted(action=action) if action in planned and event.evidence != "not_started":
                    found.setdefault(planned[action], []).append(Receipt(f"{run}/{action}", event))
                case ev.ChildFinished(action=action) if action in planned:
                    ok = event.status == "succeeded"
                    receipt = ev.ActionReceipted(action, 1, "ok" if ok else "error", "child", event.text)
                    found.setdefault(planned[action], []).append(Receipt(f"{run}/{action}", receipt))
        return found


def _call(tool: str, arguments: Value) -> bytes:
    return hashlib.sha256(canonical([tool, arguments])).digest()
