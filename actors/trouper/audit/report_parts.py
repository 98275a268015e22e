"""Pieces that all parts of a report are made of: names, times, badges, blocks of text."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from attrs import frozen

from trouper.audit.markup import Child, Markup, el, together
from trouper.core.conversation import Content, Part
from trouper.core.events import Principal, RuleAdded
from trouper.core.state import known
from trouper.narration.line import ERASED_TEXT
from trouper.narration.plain import SECOND, plain
from trouper.narration.text import duration
from trouper_journal import Erased, Plain

_STATUS: Final = {"succeeded": "ok", "failed": "bad", "cancelled": "bad"}
_WAITING: Final = {"awaiting_approval", "in_doubt", "paused", "over_budget", "drifted"}
_PICTURE: Final = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/]+={0,2})")
NOTHING: Final = "\N{EN DASH}"
"""In a cell of which nothing is known."""

_LARGEST_PICTURE: Final = 4 * 1024 * 1024


@frozen(slots=False, repr=False, eq=False)
class Within(Plain):
    """What a part of a report may refer to.

    Attributes:
        runs: Ids of the runs that the report tells of.
        rules: Standing rules that stood in for people, by id.
    """

    runs: frozenset[str]
    rules: Mapping[str, RuleAdded]

    def link(self, run: str, identity: str) -> Markup:
        """The way to a run or to a call of it; its name alone where the report does not tell of that run."""
        if run in self.runs:
            return el("a", identity, href=f"#{anchor(identity)}", class_="mono")
        return el("span", identity, class_="mono")


def badge(text: str, style: str = "dim") -> Markup:
    """A word in a frame."""
    return el("span", text.replace("_", " "), class_=f"badge {style}")


def status_badge(label: str) -> Markup:
    """How a run stands."""
    if label.endswith("-in-doubt") or label in _WAITING:
        return badge(label, "doubt")
    return badge(label, _STATUS.get(label, "model"))


def when(nanoseconds: int) -> str:
    """A moment, to the second."""
    return f"{datetime.fromtimestamp(nanoseconds // SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC"


def day(nanoseconds: int) -> str:
    """The day of a moment."""
    return f"{datetime.fromtimestamp(nanoseconds // SECOND, UTC):%A, %d %B %Y}"


def clock(nanoseconds: int) -> str:
    """The time of day, to the millisecond."""
    seconds, rest = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{rest // 1_000_000:03}"


def length(start: int, end: int) -> str:
    """How long something took."""
    return duration((end - start) / SECOND)


def name(principal: Principal | Erased | None) -> str:
    """Somebody's name."""
    if isinstance(principal, Erased):
        return ERASED_TEXT
    return "somebody unnamed" if principal is None else principal.id or '""'


def person(principal: Principal | Erased | None) -> Markup:
    """Somebody, with what is known of that claim."""
    who = known(principal, None)
    claim = None if who is None else el("span", f" {who.kind}, {who.assurance} via {who.via}", class_="soft small")
    return el("span", el("strong", name(principal), class_="person"), claim)


def facts(rows: Iterable[tuple[str, Child]]) -> Markup:
    """Names and values below each other; those without a value are left out."""
    return el("dl", [together(el("dt", key), el("dd", value)) for key, value in rows if value], class_="facts")


def table(
    heads: Sequence[str], rows: Iterable[Markup], *, numbers: Sequence[str] = (), class_: str | None = None
) -> Markup:
    """A table; heads named in ``numbers`` stand above numbers."""
    cells = [el("th", head, class_="num" if head in numbers else None) for head in heads]
    return el("table", el("thead", el("tr", cells)), el("tbody", list(rows)), class_=class_)


def row(*cells: Child, class_: str | None = None) -> Markup:
    """A row; a cell that is made already is taken as it is."""
    made = [cell if isinstance(cell, Markup) and cell.startswith("<td") else el("td", cell) for cell in cells]
    return el("tr", made, class_=class_)


def number(value: int | str | None) -> Markup:
    """A cell with a number."""
    return el("td", NOTHING if value is None else f"{value:,}" if isinstance(value, int) else value, class_="num")


def erased() -> Markup:
    """In the place of what is gone."""
    return el("span", ERASED_TEXT, class_="dim")


def spoken(text: str | Erased | None) -> Markup:
    """A text as it was said, with its lines."""
    if isinstance(text, Erased):
        return el("p", erased())
    return el("div", text, class_="text") if text else together()


def content_block(content: Content | None) -> Markup:
    """A message's content: texts as they are, pictures shown, other parts named."""
    if content is None or isinstance(content, str):
        return spoken(content)
    return together([_part(part) for part in content])


def value_block(value: object) -> Markup:
    """A value as JSON over several lines."""
    if isinstance(value, Erased):
        return el("p", erased())
    return el("pre", json.dumps(plain(value), indent=2, ensure_ascii=False))


def result_block(text: str | Erased) -> Markup:
    """A tool's result: JSON over several lines, anything else as it is."""
    if isinstance(text, str) and text[:1] in {"{", "["}:
        try:
            return value_block(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return el("p", erased()) if isinstance(text, Erased) else el("pre", text)


def anchor(identity: str) -> str:
    """A name for a place in the page."""
    if identity.isascii() and all(char.isalnum() or char in "~./-_" for char in identity):
        return f"at-{identity}"
    return f"at:{identity.encode('utf-8', 'surrogatepass').hex()}"


def _part(part: Part) -> Markup:
    for key in ("text", "refusal"):
        text = part.get(key)
        if isinstance(text, str):
            return spoken(text)
    kind = part.get("type")
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else None
    if isinstance(url, str):
        if (source := _picture(url)) is not None:
            return el("p", el("img", class_="shown", src=source, alt="picture in the conversation"))
        return el("p", f"[image: {url[:200]}]", class_="soft")
    return el("p", f"[{kind if isinstance(kind, str) else 'part'}]", class_="soft")


def _picture(url: str) -> str | None:
    """A picture that stands in the address itself and is no document; anything else is never fetched or shown."""
    if len(url) > _LARGEST_PICTURE or (found := _PICTURE.fullmatch(url)) is None:
        return None
    try:
        base64.b64decode(found[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    return url
