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

from trouper.audit.markup import Child, Markup, el, escaped, together
from trouper.core.conversation import Content, Part
from trouper.core.events import Principal, RuleAdded
from trouper.core.state import known
from trouper.narration.line import ERASED_TEXT, PERHAPS_TEXT
from trouper.narration.plain import SECOND, plain
from trouper.narration.text import duration
from trouper_journal import Erased, Plain

_STATUS: Final = {"succeeded": "ok", "failed": "bad", "cancelled": "bad", "unreadable": "bad", "archived": "doubt"}
_WAITING: Final = {"awaiting_approval", "in_doubt", "paused", "over_budget", "drifted"}
_PICTURE: Final = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/]+={0,2})")
NOTHING: Final = "\N{EN DASH}"
"""In a cell of which nothing is known."""

_FORMS: Final = ((",", ":"), (", ", ": "))
"""Ways to write JSON in one line, by which it can be told that a text says nothing but its value."""

_LINE: Final = 88
"""Characters that have room in a line of JSON."""

_LARGEST_PICTURE: Final = 4 * 1024 * 1024


@frozen(slots=False, repr=False, eq=False)
class Within(Plain):
    """What a part of a report may refer to.

    Attributes:
        places: Ids of the runs and calls that the report tells of.
        rules: Standing rules that stood in for people, by id.
    """

    places: frozenset[str]
    rules: Mapping[str, RuleAdded]

    def link(self, identity: str) -> Markup:
        """The way to a run or a call; its name alone where the report does not tell of it."""
        if identity in self.places:
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


@frozen(slots=False, repr=False, eq=False)
class Row(Plain):
    """A row of a table; a cell that is made already is taken as it is."""

    cells: tuple[Child, ...]
    class_: str | None = None


def row(*cells: Child, class_: str | None = None) -> Row:
    """A row of a table."""
    return Row(cells, class_)


def across(text: Child) -> Row:
    """A row that is one cell over the whole table: a heading for those below."""
    return Row((text,), "group")


def table(
    heads: Sequence[str], rows: Iterable[Row], *, numbers: Sequence[str] = (), class_: str | None = None
) -> Markup:
    """A table; heads named in ``numbers`` stand above numbers. A column of which nothing is known is left out.

    Each cell names its column, because a narrow page has no room for columns: there cells stand below each other.
    """
    kept = list(rows)
    full = [each for each in kept if len(each.cells) == len(heads)]
    known_ = [place for place in range(len(heads)) if any(not _says_nothing(each.cells[place]) for each in full)]
    names = [el("th", heads[place], class_="num" if heads[place] in numbers else None) for place in known_]
    made = [
        _row_of([(heads[place], each.cells[place]) for place in known_], each.class_)
        if len(each.cells) == len(heads)
        else el("tr", el("td", *each.cells, colspan=str(len(known_))), class_=each.class_)
        for each in kept
    ]
    return el("table", el("thead", el("tr", names)), el("tbody", made), class_=class_)


def _row_of(cells: Sequence[tuple[str, Child]], class_: str | None) -> Markup:
    made = []
    for head, cell in cells:
        whole = isinstance(cell, Markup) and cell.startswith("<td")
        td = cell if isinstance(cell, Markup) and whole else el("td", cell)
        made.append(Markup(f'<td data-head="{escaped(head)}"{td[3:]}'))
    return el("tr", made, class_=class_)


def _says_nothing(cell: Child) -> bool:
    return not cell or cell in {NOTHING, number(None), el("td")}


def number(value: int | str | None) -> Markup:
    """A cell with a number."""
    return el("td", NOTHING if value is None else f"{value:,}" if isinstance(value, int) else value, class_="num")


def erased() -> Markup:
    """In the place of what is gone."""
    return el("span", ERASED_TEXT, class_="dim")


def perhaps() -> Markup:
    """In the place of what is gone, where nobody can tell whether there was anything."""
    return el("span", PERHAPS_TEXT, class_="dim")


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
    return el("pre", laid_out(plain(value)))


def result_block(text: str | Erased) -> Markup:
    """A tool's result, as the model was told it. JSON stands over several lines where that changes nothing else."""
    if isinstance(text, str) and text[:1] in {"{", "["}:
        try:
            value = json.loads(text)
            if text in {json.dumps(value, ensure_ascii=False, separators=form) for form in _FORMS}:
                return el("pre", laid_out(value))
        except (ValueError, RecursionError):
            pass
    return el("p", erased()) if isinstance(text, Erased) else el("pre", text)


def laid_out(value: object, indent: str = "") -> str:
    """A value as JSON: what has room in a line stands in one."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + len(indent) <= _LINE or not isinstance(value, dict | list) or not value:
        return flat
    inner = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {laid_out(item, inner)}" for key, item in value.items()]
    else:
        parts = [laid_out(item, inner) for item in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return f"{opened}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closed}"


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
