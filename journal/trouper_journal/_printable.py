"""One ``__repr__`` for all value classes."""

from __future__ import annotations

from typing import cast

import attrs


class Printable:
    """Prints an attrs class as attrs would.

    attrs generates and compiles a method for each class, which was a fifth of the time that importing the package took;
    this one is written once. Use it with ``repr=False``.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        shown: list[str] = []
        for field in _fields(self):
            if field.repr:
                value = getattr(self, field.name)
                shown.append(f"{field.name}={field.repr(value) if callable(field.repr) else repr(value)}")
        return f"{type(self).__qualname__.rsplit('>.', 1)[-1]}({', '.join(shown)})"


class Plain(Printable):
    """Compares and hashes an attrs class as attrs would, for classes of which that is rarely asked.

    Use it with ``repr=False, eq=False``: what attrs generates is faster when called, and costs each import. For the
    same reason classes of which few are made have ``slots=False``: for slots attrs makes each class twice.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [field.name for field in _fields(self) if field.eq]
        # As lists, because in these a part that is the same object is equal, also where it does not equal itself.
        return [getattr(self, name) for name in names] == [getattr(other, name) for name in names]

    def __hash__(self) -> int:
        hashed = (field for field in _fields(self) if (field.eq if field.hash is None else field.hash))
        return hash((type(self), *(getattr(self, field.name) for field in hashed)))


def _fields(value: object) -> tuple[attrs.Attribute[object], ...]:
    return cast("tuple[attrs.Attribute[object], ...]", attrs.fields(cast("type[attrs.AttrsInstance]", type(value))))
