"""Finding the one JSON document in what a model wrote: bare, in a code fence, or with prose around it; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from trouper.core.conversation import Value
from trouper_journal import Plain

from ._arguments import READER, Unreadable, check_readable

_OPEN = re.compile(r"[{\[]")
# What JSON can follow with; anything else is prose, and need not be read to know that.
_LIKELY = re.compile(r'\{\s*["}]|\[\s*[\[{"\]\d\-tfn]')
# What begins like this was meant as JSON: if it cannot be read, nothing in it or behind it is taken in its place.
_MEANT = re.compile(r'\{\s*["}]|\[\s*[\[{"]')
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
# Some local models put their reasoning into the text.
_THOUGHT: Final = "</think>"


@frozen(slots=False, repr=False, eq=False)
class Found(Plain):
    """The document."""

    value: Value


@frozen(slots=False, repr=False, eq=False)
class NotFound(Plain):
    """There is none, or more than one.

    Attributes:
        reason: Which of these, for the model to read.
    """

    reason: str


def find_document(text: str, *, objects_only: bool = True) -> Found | NotFound:
    """Find the JSON document in a text.

    A text that is JSON as a whole is the document. Else it is the one document that stands in the text, inside a code
    fence or not; the same one twice is one. Two different ones are refused rather than chosen from, and so is a text
    in which a document is broken. Braces and brackets of prose are passed over.

    Args:
        text: The text.
        objects_only: Whether only a JSON object will do; arrays in prose are then passed over as well.
    """
    whole = text.strip()
    if not whole:
        return NotFound("the answer is empty")
    try:
        documents = [_whole(whole)]
    except Unreadable as error:
        return NotFound(error.reason)
    except (json.JSONDecodeError, RecursionError):
        rest = text.rpartition(_THOUGHT)[2]
        try:
            documents = [*_in_prose(rest)]
        except _Broken as broken:
            return NotFound(broken.reason)
        if not documents and not objects_only:
            documents = [*_in_fences(rest)]
    wanted = [document for document in documents if isinstance(document, dict) or not objects_only]
    if not wanted:
        return NotFound("there is no JSON object in it" if objects_only else "there is no JSON in it")
    if len({json.dumps(document, sort_keys=True) for document in wanted}) > 1:
        return NotFound("there are several different JSON documents in it, and only one can be meant")
    return Found(wanted[0])


def _whole(text: str) -> Value:
    value: Value = READER.decode(text)
    check_readable(value)
    return value


class _Broken(Exception):
    """A document that cannot be read stands in the text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _in_prose(text: str) -> Iterator[Value]:
    """The objects and arrays that stand in no other."""
    ends = _ends(text)
    place = 0
    while (opened := _OPEN.search(text, place)) is not None:
        start = opened.start()
        if not _LIKELY.match(text, start):
            place = ends.get(start, start + 1)
            continue
        try:
            value, place = READER.raw_decode(text, start)
            check_readable(value)
        except json.JSONDecodeError as error:
            if _MEANT.match(text, start):
                where = f"line {error.lineno}, column {error.colno}"
                raise _Broken(f"the JSON in it is broken: {error.msg.removesuffix(' at')} at {where}") from error
            place = ends.get(start, start + 1)
        except Unreadable as error:
            raise _Broken(error.reason) from error
        except RecursionError as error:
            raise _Broken("nested too deeply") from error
        else:
            yield value


def _ends(text: str) -> dict[int, int]:
    """For each bracket that is closed again, the place behind that."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {"}": [], "]": []}
    for place, letter in enumerate(text):
        if letter == "{":
            opened["}"].append(place)
        elif letter == "[":
            opened["]"].append(place)
        elif letter in "}]" and (waiting := opened[letter]):
            ends[waiting.pop()] = place + 1
    return ends


def _in_fences(text: str) -> Iterator[Value]:
    """Texts, numbers and the like: they can be told from prose only where they stand alone in a fence."""
    for fence in _FENCE.finditer(text):
        try:
            yield _whole(fence.group(2).strip())
        except (Unreadable, json.JSONDecodeError, RecursionError):
            continue
