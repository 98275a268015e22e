"""Frozen pictures of what runs; tests wait on them and metrics read them."""

from __future__ import annotations

import attrs

from trouper.kit._lifecycle import State
from trouper_journal import Plain


@attrs.frozen(slots=False, kw_only=True, repr=False, eq=False)
class ActorStatistics(Plain):
    """One actor at one moment.

    Attributes:
        name: Path in the tree.
        state: Where it is in its life.
        mailbox: Messages accepted and not yet taken. News of watched actors may lift it above ``capacity``.
        capacity: Bound of the mailbox.
        waiting_senders: Tasks that wait in ``tell`` or ``ask`` because the mailbox is full.
        handled: Messages handled without failing, over all restarts.
        unanswered: Asks in the actor's hands: the one being handled and those taken with ``reply_later``.
        failures: How often it failed.
        restarts: How often it was restarted.
        children: Living children.
    """

    name: str
    state: State
    mailbox: int
    capacity: int
    waiting_senders: int
    handled: int
    unanswered: int
    failures: int
    restarts: int
    children: int


@attrs.frozen(slots=False, kw_only=True, repr=False, eq=False)
class SystemStatistics(Plain):
    """All actors of a system at one moment.

    Attributes:
        actors: Living actors.
        mailbox: Messages in all their mailboxes.
        waiting_senders: Tasks that wait for room in any of them.
        spawned: Actors spawned so far.
        failures: Failures so far.
        restarts: Restarts so far.
    """

    actors: int
    mailbox: int
    waiting_senders: int
    spawned: int
    failures: int
    restarts: int


@attrs.frozen(slots=False, kw_only=True, repr=False, eq=False)
class TreeNode(Plain):
    """An actor, or the system itself, in ``ActorSystem.tree()``.

    Attributes:
        name: Name among its siblings.
        path: Names from the system down, joined by ``/``.
        state: Where it is in its life.
        mailbox: Messages accepted and not yet taken; 0 for the system.
        capacity: Bound of the mailbox; 0 for the system.
        children: In the order in which they were spawned.
    """

    name: str
    path: str
    state: State
    mailbox: int
    capacity: int
    children: tuple[TreeNode, ...]

    def __str__(self) -> str:
        """One line for each actor, children indented under their supervisor."""
        depth = f" {self.mailbox}/{self.capacity}" if self.capacity else ""
        lines = [f"{self.name} {self.state.value}{depth}"]
        for child in self.children:
            lines += [f"  {line}" for line in str(child).splitlines()]
        return "\n".join(lines)
