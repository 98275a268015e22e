"""The history that a run starts from: stretches of other runs' conversations, named and never copied.

Sessions, sub-agents that are shown their parent's conversation, and forks all start from a `Base`. A stretch is named
by a run and a version of its stream, so that it never changes; its digest says what it held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from attrs import frozen

from trouper_journal import Plain


@frozen(slots=False, repr=False, eq=False)
class HistoryRef(Plain):
    """A stretch of a run's conversation.

    Attributes:
        run: The run's id.
        version: As it stood at this version of the run's stream. Calls that were open there are shown with an answer
            that says what was known (see `trouper.core.history.closed_history`).
        whole: Whether what the run itself had started from comes first.
        skip: How many of the run's own messages are left out, from its first.
        take: How many are taken behind those; None for all.
        digest: Keyed digest over the messages of the stretch; empty while nobody has looked it up.
    """

    run: str
    version: int
    whole: bool = True
    skip: int = 0
    take: int | None = None
    digest: bytes = b""


@frozen(slots=False, repr=False, eq=False)
class Base(Plain):
    """What comes before a run's own messages.

    Attributes:
        refs: The stretches, in order.
        chain: Running digest at the end of them, where the run's own chain begins; empty until the driver has looked
            the stretches up and pinned it.
        messages: How many messages they come to, once pinned.
    """

    refs: tuple[HistoryRef, ...]
    chain: bytes = b""
    messages: int = 0

    @property
    def pinned(self) -> bool:
        """Whether the driver has looked the stretches up."""
        return bool(self.chain)


def base_chain(chain: bytes, refs: Iterable[HistoryRef]) -> bytes:
    """The running digest over stretches, from that of what comes before them (``b""`` where nothing does)."""
    for ref in refs:
        chain = hashlib.sha256(chain + ref.digest).digest()
    return chain
