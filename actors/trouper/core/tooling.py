"""What a run's state holds about tools beside its calls: what it may use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from attrs import frozen

from trouper_journal import Plain


@frozen(slots=False, repr=False, eq=False)
class Denial(Plain):
    """Why a call may not run.

    Attributes:
        policy: What denied it: the tool's ``permissions``, or the ``authorize`` of the ``runtime`` or of the ``tool``.
        missing: Permissions that the run was not granted.
        reason: Why, in words.
    """

    policy: Literal["permissions", "runtime", "tool"]
    missing: tuple[str, ...] = ()
    reason: str = ""


@frozen(slots=False, repr=False, eq=False)
class Tooling(Plain):
    """What a run may use.

    Attributes:
        grants: The permissions that it was submitted with.
        bound: The tools of the model call ``bound_for``, where the agent chooses them anew for each.
        bound_for: Number of that model call; -1 for none.
        misbound: Why they could not be chosen; empty where they could.
        called: Tools that its model has called, each once.
        direct: The call whose result is the run's output, where a reply has just been carried out that ends it.
        source: The call whose result became the output of the run; None where a reply did.
    """

    grants: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    bound_for: int = -1
    misbound: str = ""
    called: tuple[str, ...] = ()
    direct: str | None = None
    source: str | None = None

    def offers(self, index: int) -> tuple[str, ...] | None:
        """The tools of a model call; None where it has all that the agent has."""
        return self.bound if index == self.bound_for else None


NO_TOOLING: Final = Tooling()
"""Of a run that was granted nothing."""


def missing(permissions: Iterable[str], grants: Iterable[str]) -> tuple[str, ...]:
    """The permissions that are not among the grants, in order. Names are compared letter by letter."""
    granted = frozenset(grants)
    return tuple(name for name in permissions if name not in granted)


def inherited(grants: Iterable[str], asked: Iterable[str] | None = None) -> tuple[str, ...]:
    """What a run may be granted that works for another: at most what that one was.

    Args:
        grants: The other's own.
        asked: What it shall have of them; None for all.
    """
    own = tuple(grants)
    return own if asked is None else tuple(name for name in asked if name in own)
