"""Which parents wait for children that are under way here, so that they are not woken for each of them.

A parent's stream is due from the first child that ends, and a restart finds it so. Here it is put on when no child of
its is under way any more, or when anything else has happened to it: two hundred children that end one after the other
would else have it read its stream two hundred times.
"""

from __future__ import annotations

from typing import final

from attrs import define, field

from trouper_journal import Printable


@define(eq=False, repr=False)
class _Brood(Printable):
    """The children of a run that are under way.

    Attributes:
        known: The version of its stream that the parent knows, or would but for children's ends; None where it has to
            look at each.
        ends: Versions beyond that which are children's ends; they need not be heard of in order.
        due: Whether a child has ended since the parent last looked.
    """

    children: set[str] = field(factory=set)
    known: int | None = None
    ends: set[int] = field(factory=set)
    due: bool = False


@final
class Broods:
    """The broods of all parents."""

    def __init__(self) -> None:
        self._broods: dict[str, _Brood] = {}

    def add(self, parent: str, child: str) -> None:
        """A child is under way."""
        self._broods.setdefault(parent, _Brood()).children.add(child)

    def finished(self, parent: str, child: str, version: int) -> bool:
        """A child has ended, as the parent's stream says in that version; True where the parent must look now."""
        brood = self._broods.get(parent)
        if brood is None:
            return True
        brood.due = True
        if brood.known is not None:
            brood.ends.add(version)
            while brood.known + 1 in brood.ends:
                brood.known += 1
                brood.ends.remove(brood.known)
        return self.leave(parent, child) or brood.known is None

    def leave(self, parent: str, child: str) -> bool:
        """A child is no longer under way; True where the parent must look now."""
        brood = self._broods.get(parent)
        if brood is None:
            return False
        brood.children.discard(child)
        if brood.children:
            return False
        del self._broods[parent]
        return brood.due

    def rests(self, parent: str, version: int | None) -> None:
        """A parent leaves; it knows its stream up to that version, or (None) has to look at each end of a child."""
        brood = self._broods.get(parent)
        if brood is not None:
            brood.known = version
            brood.ends.clear()
            brood.due = False

    def postponed(self, parent: str, version: int) -> bool:
        """Whether a parent that is due by that version of its stream will look when its brood is through."""
        brood = self._broods.get(parent)
        return brood is not None and brood.known == version
