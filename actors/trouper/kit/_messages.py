"""The messages that the kit itself knows."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

import attrs

from trouper_journal import Plain

R_co = TypeVar("R_co", covariant=True)

Reason: TypeAlias = Literal["stopped", "failed", "cancelled"]


class Request(Generic[R_co]):
    """Base of messages that expect an answer of type ``R``.

    Example:
        ``@attrs.frozen`` ``class Ping(Request[str]): text: str``
    """

    __slots__ = ()


@attrs.frozen(repr=False, eq=False)
class Terminated(Plain):
    """News that a watched actor has ended; a restart is no end.

    Attributes:
        name: The actor's path in the tree, such as ``"shop/desk/printer"``.
        reason: ``"stopped"`` in order, ``"failed"``, or ``"cancelled"`` with its supervisor or by ``Ref.cancel``.
        cause: The exception that ended it; None unless it failed.
    """

    name: str
    reason: Reason
    cause: Exception | None = attrs.field(default=None, eq=False)
