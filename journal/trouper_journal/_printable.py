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
