"""A record as one JSON object, as stored: no event class is needed. ``docs/exports.md`` tells the form.

The form is fixed by the JSON Schema that `record_schema` gives. Unlike the JSON that commands print it keeps every
stored bit, because it is evidence: moments to the nanosecond, fields as they were written, and with ``raw`` the bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from typing import Final

from attrs import frozen

from trouper_journal import Archived, Damaged, Erased, JournalCorrupt, Plain, Record, Value, unpack_map
from trouper_journal._codec import split
from trouper_journal._damaged import damaged_record, problem_of

FORM: Final = 1
"""Number of the form; raised when a reader of the old one would read wrongly."""

ERASED_FIELDS: Final[Mapping[str, bool]] = {"$erased": True}
WITHHELD: Final[Mapping[str, bool]] = {"$withheld": True}

_SECOND: Final = 1_000_000_000
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


@frozen(slots=False, repr=False, eq=False)
class LineOptions(Plain):
    """How records are written.

    Attributes:
        raw: Adds the stored bytes, from which anybody can compute the leaf.
        redact: Leaves content out: what people, models and tools said. Facts and digests stay.
        keep_going: Writes records that are damaged, with a ``problem``, instead of ending at the first.
    """

    raw: bool = False
    redact: bool = False
    keep_going: bool = False


PLAINLY: Final = LineOptions()


def record_schema() -> dict[str, object]:
    """The JSON Schema (draft 2020-12) of an exported record."""
    text = resources.files("trouper.audit").joinpath("schemas/record.schema.json").read_text("utf-8")
    schema: dict[str, object] = json.loads(text)
    return schema


def record_line(journal_id: bytes, record: Record, options: LineOptions = PLAINLY) -> str:
    """A record as one line of JSON, in ASCII, without the line's end.

    Raises:
        JournalCorrupt: The record is damaged, and the options do not say to keep going.
    """
    return _encode(record_object(journal_id, record, options))


def record_object(journal_id: bytes, record: Record, options: LineOptions = PLAINLY) -> dict[str, object]:
    """A record as an object of JSON's own types; errors as for `record_line`."""
    if isinstance(record, Damaged):
        return _damaged_object(journal_id, record, options)
    if (problem := damage_of(journal_id, record)) is not None:
        marker = damaged_record(record, problem)
        return _damaged_object(journal_id, marker, options)
    return _object(journal_id, record, options)


def checked_line(journal_id: bytes, record: Record, options: LineOptions) -> str:
    """As `record_line`, for what was checked when it was read."""
    if isinstance(record, Damaged):
        return _encode(_damaged_object(journal_id, record, options))
    return _encode(_object(journal_id, record, options))


def _damaged_object(journal_id: bytes, record: Damaged, options: LineOptions) -> dict[str, object]:
    """What stands in a damaged place, as far as it is a record at all, and what is wrong with it."""
    if not options.keep_going:
        raise record.error
    if record.found is not None:
        return _object(journal_id, record.found, options, record.problem)
    line = {"form": FORM, "journal_id": journal_id.hex(), "position": record.first or record.position}
    if record.first and record.position > record.first:
        line["upto"] = record.position
    return {**line, "stream": record.stream or None, "problem": record.told}


def _object(journal_id: bytes, record: Record, options: LineOptions, problem: str | None = None) -> dict[str, object]:
    line: dict[str, object] = {
        "form": FORM,
        "journal_id": journal_id.hex(),
        "position": record.position,
        "stream": record.stream,
        "version": record.version,
        "type": record.type,
        "schema": record.schema,
        "recorded_at": instant(record.recorded_at),
        "key": record.key,
        "label": record.label,
        "wake_at": None if record.wake_at is None else instant(record.wake_at),
        "key_id": record.key_id,
        "leaf": record.leaf.hex(),
    }
    if isinstance(record, Archived):
        return {**line, "meta": None, "facts": None, "content": None, "archived": record.file}
    try:
        line["meta"] = jsonable(unpack_map(record.meta))
        line["facts"] = jsonable(unpack_map(record.facts))
        line["content"] = _content(record, options)
    except JournalCorrupt as error:
        problem = problem or str(error)
        line.update({name: line.get(name) for name in ("meta", "facts", "content")})
    if problem is not None:
        if not options.keep_going:
            raise JournalCorrupt(problem, record.position)
        line["problem"] = problem
    if options.raw:
        line["raw"] = _raw(record, redact=options.redact)
    return line


def instant(nanoseconds: int) -> str:
    """A moment in ISO 8601, UTC, to the nanosecond."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return f"{_second(seconds)}.{rest:09}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    """A whole second; formatting one took a tenth of an export, and many records share it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def jsonable(value: Value) -> object:
    """A stored value in JSON's own types, and back without doubt.

    Bytes become ``{"$bytes": base64}``. A key that begins with a dollar sign gets another in front, so that no stored
    map is taken for one of ours.
    """
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {f"${key}" if key.startswith("$") else key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value


def damage_of(journal_id: bytes, record: Record) -> str | None:
    """What is wrong with a record's own bytes; its large values are those that were looked up by their digests."""
    if isinstance(record, Archived):
        return None
    if (problem := problem_of(journal_id, record)) is not None:
        return problem
    for digest, data in record.values.items():
        if hashlib.sha256(data).digest() != digest:
            return f"the large value {digest.hex()} does not have its digest"
    return None


def _content(record: Record, options: LineOptions) -> object:
    # With the stored bytes only what those say is shown, because only that can be checked.
    if record.key_id is not None and (options.raw or options.redact or record.opened is None):
        return dict(ERASED_FIELDS)
    if not record.content:
        return None
    if options.redact:
        return dict(WITHHELD)
    _, fields = split(record)
    if isinstance(fields, Erased):
        return dict(ERASED_FIELDS)
    found: dict[str, object] = {name: jsonable(value) for name, value in fields.items()}
    # It keys the digests of content; with the stored bytes it is there anyway, and lets others check the digests.
    if not options.raw and "salt" in found and record.type == "run.submitted":
        found["salt"] = dict(WITHHELD)
    return found


def _raw(record: Record, *, redact: bool) -> dict[str, object]:
    raw: dict[str, object] = {"meta": _base64(record.meta), "facts": _base64(record.facts)}
    if redact:
        raw["content_sha256"] = hashlib.sha256(record.content).hexdigest()
    else:
        raw["content"] = _base64(record.content)
        raw["values"] = {digest.hex(): _base64(data) for digest, data in record.values.items()}
    return raw


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
