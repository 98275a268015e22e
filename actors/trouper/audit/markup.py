"""Making HTML in which nothing from outside can be anything but text.

There is one way to put a string in: as a child or an attribute of an element, where it is escaped. Only what `el`
made is taken as it is, and no element or attribute is named by what comes from outside.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final, TypeAlias

from trouper.narration.text import clean


class Markup(str):
    """HTML that `el` made."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
"""A text, which is escaped; markup, which is not; nothing; or several of these."""

_VOID: Final = frozenset({"meta", "img", "br", "hr"})


def el(name: str, /, *children: Child, **attributes: str | None) -> Markup:
    """An element.

    Args:
        name: Its name.
        children: What is in it.
        attributes: Its attributes, by names in which underscores stand for dashes and one at the end is dropped
            (``class_``, ``http_equiv``); those that are None are left out.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{words}>")
    return Markup(f"<{name}{words}>{together(*children)}</{name}>")


def together(*children: Child) -> Markup:
    """What stands side by side."""
    return Markup("".join(map(_one, children)))


def escaped(text: str) -> str:
    """A text that is nothing but text, wherever it stands.

    Characters that cannot be seen, or that change the direction of others, are written as escapes, as on a terminal:
    nobody shall be shown another text than the one that stands there.
    """
    return html.escape(clean(text, keep="\n\t"), quote=True)


def _one(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escaped(child)
    return "".join(map(_one, child))
