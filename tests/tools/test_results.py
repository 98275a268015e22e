"""What tools return, as it is journaled, as a model reads it, and without secrets."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import json
import uuid
from decimal import Decimal
from pathlib import PurePosixPath
from urllib.parse import quote

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.core.conversation import Value
from trouper.errors import InvalidValue
from trouper.tools import Redactor, to_text, to_value


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    __slots__ = ()


@dataclasses.dataclass
class Point:
    x: int
    level: Level


@attrs.frozen
class Box:
    corner: Point
    tags: frozenset[str]


class Row(pydantic.BaseModel):
    when: dt.date
    price: Decimal


Pair = collections.namedtuple("Pair", "left right")  # noqa: PYI024 -- both kinds are about


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (None, None),
        ("text", "text"),
        (b"\x00", b"\x00"),
        (bytearray(b"ab"), b"ab"),
        (10**30, 10**30),
        (Level.HIGH, 3),
        (Name("a"), "a"),
        ((1, 2.5, True), [1, 2.5, True]),
        (Pair(1, 2), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        ({3, 10, 2}, [10, 2, 3]),
        ({1: "a", None: "b", False: "c", 2.5: "d"}, {"1": "a", "null": "b", "false": "c", "2.5": "d"}),
        ({Level.HIGH: 1, dt.date(2026, 1, 2): 2}, {"3": 1, "2026-01-02": 2}),
        (Box(Point(1, Level.HIGH), frozenset({"t"})), {"corner": {"x": 1, "level": 3}, "tags": ["t"]}),
        ([Row(when=dt.date(2026, 1, 2), price=Decimal("1.10"))], [{"when": "2026-01-02", "price": "1.10"}]),
        (dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), "2026-01-02T03:00:00+00:00"),
        (dt.timedelta(seconds=90, microseconds=500_000), "PT90.5S"),
        (-dt.timedelta(seconds=1), "-PT1S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        ([float("nan"), float("inf"), float("-inf")], ["NaN", "Infinity", "-Infinity"]),
    ],
)
def test_results_become_journal_values(result: object, value: object) -> None:
    made = to_value(result)
    assert made == value
    assert type(made) is type(value)


class Opaque:
    pass


def cycle() -> list[object]:
    ring: list[object] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (Opaque(), "result: Opaque is neither JSON"),
        ({"a": [1, Opaque()]}, r"a\[1\]: Opaque is neither"),
        (Point, "result: type is neither"),
        ((part for part in "ab"), "generator is neither"),
        (cycle(), "nested deeper than 128 levels, or in a cycle"),
        ({(1, 2): 3}, "a key of type tuple"),
        ({1: "a", "1": "b"}, "two keys become '1'"),
    ],
)
def test_what_cannot_be_journaled_is_named(result: object, told: str) -> None:
    with pytest.raises(InvalidValue, match=told):
        to_value(result)


def test_a_number_too_long_to_be_written_is_refused() -> None:
    with pytest.raises(InvalidValue, match="digits cannot be journaled"):
        to_value([10**4300])


def test_what_a_model_reads() -> None:
    assert to_text("plain é") == "plain é"
    assert to_text({"a": [1, None, "é"]}) == '{"a":[1,null,"é"]}'
    assert to_text([b"\x00\x01"]) == '["AAE="]'
    assert to_text("half \ud800") == "half \ufffd"
    assert to_text({"k\ud800": 1}) == '{"k\ufffd":1}'


SECRET = "s3cr\"et/'key\n"


@pytest.mark.parametrize(
    "text",
    [
        f"failed with {SECRET}!",
        f"failed with {SECRET.strip()}!",
        f"request was {SECRET!r}",
        f"body was {json.dumps({'key': SECRET})}",
        f"GET /?key={quote(SECRET, safe='')}",
        f"GET /?key={quote(SECRET, safe='').lower()}",
    ],
)
def test_secrets_are_masked_however_they_are_quoted(text: str) -> None:
    masked = Redactor([SECRET]).text(text)
    assert "[secret]" in masked
    assert "s3cr" not in masked


def test_secrets_are_masked_in_values() -> None:
    redactor = Redactor(["abc", "abcdef", "1234"])
    value: Value = {"abc": ["xabcdefx", b"-abc-", 1234, 1234.5, True, None], "abcdef": "abcd"}
    assert redactor.value(value) == {
        "[secret]": ["x[secret]x", b"-[secret]-", "[secret]", 1234.5, True, None],
        "[secret]#2": "[secret]d",
    }


def test_an_empty_secret_masks_nothing_and_a_mask_is_not_masked_again() -> None:
    assert Redactor([""]).text("abc") == "abc"
    assert Redactor(["secret", "cre"]).text("a secret") == "a [secret]"


def test_a_redactor_does_not_show_what_it_hides() -> None:
    assert "hunter2" not in repr(Redactor(["hunter2"]))


@given(st.lists(st.text(min_size=4), min_size=1, max_size=3), st.text(), st.text())
def test_no_secret_survives(secrets: list[str], before: str, after: str) -> None:
    redactor = Redactor(secrets)
    for secret in secrets:
        if secret.strip() and secret not in "[secret]":
            plain = before + secret + after
            assert secret not in redactor.text(plain).replace("[secret]", "\0")
            assert secret.encode("utf-8", "surrogatepass") not in to_bytes(redactor, plain)


def to_bytes(redactor: Redactor, text: str) -> bytes:
    masked = redactor.value(text.encode("utf-8", "surrogatepass"))
    assert isinstance(masked, bytes)
    return masked.replace(b"[secret]", b"\0")
