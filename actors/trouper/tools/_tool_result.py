"""What a tool may return where a plain value does not say it all, and what becomes of what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from attrs import Attribute, field, frozen

from trouper.core.conversation import Part, Value
from trouper.core.conversation import text as text_of
from trouper.core.media import Audio, File, Image, Media
from trouper.core.strict_json import valid_text
from trouper_journal import Plain

from ._outcomes import Returned
from ._redact import Redactor
from ._results import Alone, to_text, to_value
from ._timer import Timer

MAX_RESULT: Final = 50_000
"""How many characters of a result a model is told, unless a tool says otherwise."""


def _check_update(_: ToolResult, __: Attribute[Mapping[str, object]], value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"ToolResult, update: {type(value).__name__} is not a mapping of values by state key")


@frozen
class ToolResult(Alone):
    """A tool's result with what goes beside it.

    Attributes:
        content: What the model is told, as if it had been returned alone; or a `Timer`, to tell it something later.
        artifact: What is journaled with the call and not shown to the model: anything that a tool may return, such as
            the rows behind a summary, or a report's bytes. `Run.artifacts` has it.
        update: New values for keys of the run's named state (see `StateKey`), by key. Each goes through its key's
            reducer. If one does not fit, none is taken, and the model is told so.
    """

    content: object = None
    artifact: object = field(default=None, kw_only=True)
    update: Mapping[str, object] = field(factory=dict, validator=_check_update, kw_only=True)


def returned(result: object, redactor: Redactor) -> Returned:
    """What a tool returned as journal values, secrets masked.

    Raises:
        InvalidValue: Something of it cannot be journaled.
    """
    if not isinstance(result, ToolResult | Timer | Image | Audio | File | list | tuple):
        return Returned(redactor.value(to_value(result)))
    told = result if isinstance(result, ToolResult) else ToolResult(result)
    update = redactor.value(to_value(told.update))
    if isinstance(told.content, Timer):
        timer = attrs.evolve(told.content, text=redactor.text(told.content.text))
        return Returned(None, update if isinstance(update, dict) else {}, timer=timer)
    parts = _parts(told.content, redactor)
    return Returned(
        [dict(part) for part in parts] if parts else redactor.value(to_value(told.content)),
        update if isinstance(update, dict) else {},
        parts,
        redactor.value(to_value(told.artifact)),
    )


def _parts(content: object, redactor: Redactor) -> tuple[Part, ...]:
    """Content parts, where something among the content is no text; nothing where a value says it all."""
    several = content if isinstance(content, list | tuple) else [content]
    if not any(isinstance(each, Image | Audio | File) for each in several):
        return ()
    return tuple(_part(each, redactor) for each in several)


def _part(each: object, redactor: Redactor) -> Part:
    if isinstance(each, Image | Audio | File):
        return _masked(each, redactor).part()
    return {"type": "text", "text": to_text(redactor.value(to_value(each)))}


def _masked(media: Media, redactor: Redactor) -> Media:
    """Without secrets: encoded, they would no longer be found."""
    match media:
        case Image(data=bytes() as data):
            return attrs.evolve(media, data=redactor.bytes(data))
        case Image(url=str() as url):
            return attrs.evolve(media, url=redactor.text(url))
        case Audio(data=data):
            return attrs.evolve(media, data=redactor.bytes(data))
        case File(data=data, name=name):
            return attrs.evolve(media, data=redactor.bytes(data), name=redactor.text(name))
        case _:
            return media


@frozen(repr=False, eq=False)
class Shown(Plain):
    """A result as a model is told of it.

    Attributes:
        text: The text of it.
        parts: All of it, where that is more than text; else empty.
        whole: The value where it is more than the text; None where the text is all.
        artifact: What is kept beside it.
        cut: How many characters the model is not told.
    """

    text: str
    parts: tuple[Part, ...] = ()
    whole: Value = None
    artifact: Value = None
    cut: int = 0


def shown(result: Returned, limit: int | None) -> Shown:
    """What a model is told of a result: all of it, or so many characters and a note of what is missing.

    Args:
        result: What the tool returned.
        limit: How many characters; None for all.
    """
    if not result.parts:
        text, cut = _cut(to_text(result.value), limit)
        whole = None if isinstance(result.value, str) and not cut else result.value
        return Shown(text, (), whole, result.artifact, cut)
    parts, cut = _cut_parts(result.parts, limit)
    return Shown(text_of(parts), parts, result.value if cut else None, result.artifact, cut)


def _cut(text: str, limit: int | None) -> tuple[str, int]:
    if limit is None or len(text) <= limit:
        return text, 0
    cut = len(text) - limit
    return f"{text[:limit]}\n[cut: {cut:,} of {len(text):,} characters are not shown]", cut


def _cut_parts(parts: Sequence[Part], limit: int | None) -> tuple[tuple[Part, ...], int]:
    """The same with the texts of parts; images and the like count for nothing."""
    left, cut = limit, 0
    kept: list[Part] = []
    for part in parts:
        said = part.get("text")
        if isinstance(said, str):
            words, missing = _cut(valid_text(said), left)
            cut += missing
            left = None if left is None else max(0, left - len(said))
            part = {**part, "text": words}
        kept.append(part)
    return tuple(kept), cut
