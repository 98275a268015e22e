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
        for field in attrs.fields(cast("type[attrs.AttrsInstance]", type(self))):
            if field.repr:
                value = getattr(self, field.name)
                shown.append(f"{field.name}={field.repr(value) if callable(field.repr) else repr(value)}")
        return f"{type(self).__qualname__.rsplit('>.', 1)[-1]}({', '.join(shown)})"


class Plain(Printable):
    """Compares and hashes an attrs class as attrs would, for classes of which that is rarely asked.

    Use it with ``repr=False, eq=False``: what attrs generates is faster when called, and costs each import.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash((type(self), *_compared(self)))


def _compared(value: object) -> list[object]:
    return [
        getattr(value, field.name) for field in attrs.fields(cast("type[attrs.AttrsInstance]", type(value))) if field.eq
    ]
