"""Events come back as they were written; what does not fit is refused at either edge, naming the field."""

from __future__ import annotations

import hashlib
import math
import pickle
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal_format.sample import (
    REGISTRY,
    SALT,
    Color,
    Counted,
    Everything,
    Noted,
    Price,
    RunId,
    Said,
    Showed,
    encode,
    record_of,
)

from trouper_journal import (
    ERASED,
    Domain,
    Erased,
    EventRegistry,
    InvalidValue,
    JournalCorrupt,
    Value,
    event,
    pack,
    pack_map,
    unpack_map,
)

texts = st.text(max_size=8) | st.just("\ud83d")
finite = st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | st.integers() | finite | texts | st.binary(max_size=8)
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)
maps = st.dictionaries(texts, values, max_size=3)
prices = st.builds(Price, nanos=st.integers(0), entry=texts)
said = st.recursive(
    st.builds(Said, texts),
    lambda inner: st.builds(Showed, texts, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=5,
)
everything = st.builds(
    Everything,
    run=texts.map(RunId),
    count=st.integers(),
    ratio=finite,
    yes=st.booleans(),
    digest=st.binary(),
    maybe=st.none() | texts,
    mode=st.sampled_from(["fast", "slow", 3]),
    color=st.sampled_from(Color),
    tags=st.lists(texts, max_size=3).map(tuple),
    pair=st.tuples(texts, st.integers()),
    price=prices,
    prices=st.dictionaries(texts, prices, max_size=2),
    text=texts,
    anything=values,
    said=said,
    either=st.none() | texts | st.lists(maps, max_size=2).map(tuple),
    number=st.integers() | finite,
    extra=maps,
    limit=st.sampled_from([10, 11]),
    note=st.none() | texts,
)
EXAMPLE = Everything(
    run=RunId("r"),
    count=1,
    ratio=0.5,
    yes=True,
    digest=b"d",
    maybe=None,
    mode="fast",
    color=Color.RED,
    tags=("a",),
    pair=("s", 3),
    price=Price(5),
    prices={"p": Price(6, "e")},
    text="text",
    anything={"a": [1]},
    said=Showed("u", (Said("t"),)),
    either=({"type": "text"},),
    number=1,
)


@given(everything)
def test_events_come_back_as_they_were_written(event: Everything) -> None:
    back = REGISTRY.decode(record_of(encode(event)))
    assert back == event
    assert isinstance(back, Everything)
    assert not isinstance(back.anything, Erased)
    assert not isinstance(event.anything, Erased)
    assert pack(back.anything) == pack(event.anything)
    assert type(back.number) is type(event.number)


def test_facts_and_content_are_stored_apart() -> None:
    encoded = encode(EXAMPLE)
    assert unpack_map(encoded.facts).keys() == {
        *("run", "count", "ratio", "yes", "digest", "maybe", "mode", "color", "tags", "pair", "price", "prices")
    }
    assert encoded.content[:16] == SALT
    assert unpack_map(encoded.content[16:]).keys() == {"text", "anything", "said", "either", "number"}
    assert b"text" not in encoded.facts


def test_fields_equal_to_their_defaults_are_not_stored() -> None:
    assert encode(Counted()).facts == b""
    assert encode(Counted(0)).facts == b""
    assert unpack_map(encode(Counted(5)).facts) == {"count": 5}


def test_an_event_without_content_fields_stores_no_random_bytes() -> None:
    assert encode(Counted(5)).content == b""
    assert encode(Noted("")).content.startswith(SALT)


@pytest.mark.parametrize("stored", [None, False, 0, 0.0, "", [], {}])
def test_free_values_are_not_taken_for_their_default(stored: Value) -> None:
    back = REGISTRY.decode(record_of(encode(Noted("", other=stored))))
    assert isinstance(back, Noted)
    assert not isinstance(back.other, Erased)
    assert pack(back.other) == pack(stored)


@attrs.frozen
class Nested:
    ratio: float = 0.0


@event("sample.near")
@attrs.frozen
class Near:
    """Fields whose defaults equal values that are written differently."""

    ratio: float = 0.0
    number: int | float = 0
    flag: int | bool = 0
    one: Literal[1, True] = 1
    ratios: tuple[float, ...] = (0.0,)
    free: tuple[Value, ...] = (1,)
    nested: Nested = Nested()
    made: Nested = attrs.Factory(Nested)


@pytest.mark.parametrize(
    "near",
    [
        Near(),
        Near(ratio=-0.0, number=0.0, flag=False, one=True),
        Near(number=-0.0, ratios=(-0.0,), free=(True,)),
        Near(free=(1.0,), nested=Nested(-0.0), made=Nested(-0.0)),
    ],
)
def test_a_value_is_not_taken_for_a_default_that_it_only_equals(near: Near) -> None:
    registry = EventRegistry([Near])
    assert repr(registry.decode(record_of(encode(near, registry)))) == repr(near)


@pytest.mark.parametrize(
    ("field", "value", "path", "reason"),
    [
        ("count", "1", "count", "str is not an integer"),
        ("count", True, "count", "bool is not an integer"),
        ("count", 2**14272, "count", "an integer of more than 1784 bytes"),
        ("ratio", math.nan, "ratio", "nan is not a number"),
        ("ratio", 10**400, "ratio", "int too large"),
        ("yes", 1, "yes", "int is not true or false"),
        ("digest", bytearray(b"d"), "digest", "bytearray is not bytes"),
        ("maybe", 3, "maybe", "int is not text"),
        ("mode", "medium", "mode", "str is not one of 'fast', 'slow', 3"),
        ("mode", 3.0, "mode", "float is not one of"),
        ("color", "red", "color", "str is not Color"),
        ("tags", ("a", None), "tags[1]", "NoneType is not text"),
        ("tags", "ab", "tags", "str is not a tuple"),
        ("pair", ("a", "b"), "pair[1]", "str is not an integer"),
        ("pair", ("a",), "pair", "not a tuple of 2"),
        ("price", 5, "price", "int is not Price"),
        ("price", Price(5.0), "price.nanos", "float is not an integer"),  # type: ignore[arg-type]
        ("prices", {"p": Price(1, 2)}, "prices.p.entry", "int is not text"),  # type: ignore[arg-type]
        ("prices", {1: Price(1)}, "prices", "int is not text"),
        ("text", ERASED, "text", "erased content cannot be written"),
        ("anything", {"a": [{"b": math.inf}]}, "anything.a[0].b", "inf is not a number"),
        ("anything", ERASED, "anything", "not data"),
        ("said", Price(1), "said", "Price is not one of said, showed"),
        ("said", Showed("u", (Said("a"), Said(3))), "said.inner[1].text", "int is not text"),  # type: ignore[arg-type]
        ("either", 5, "either", "int is not one of"),
        ("either", ({"a": object()},), "either[0].a", "object of type object"),
        ("number", "1", "number", "str is not one of float, int"),
        ("extra", {"a": {1: 1}}, "extra.a", "the key 1 is not text"),
    ],
)
def test_what_does_not_fit_is_not_written(field: str, value: object, path: str, reason: str) -> None:
    change: dict[str, Any] = {field: value}
    with pytest.raises(InvalidValue, match=reason) as caught:
        encode(attrs.evolve(EXAMPLE, **change))
    assert caught.value.path == f"sample.everything.{path}"


def test_nesting_counts_from_the_map_of_fields() -> None:
    deep: Value = 1
    for _ in range(199):
        deep = [deep]
    assert REGISTRY.decode(record_of(encode(Noted("", other=deep)))) == Noted("", other=deep)
    with pytest.raises(InvalidValue, match="nested deeper than 200") as caught:
        encode(Noted("", other=[deep]))
    assert caught.value.path == "sample.noted.other"


def test_classes_nested_without_end_are_refused() -> None:
    said: Said | Showed = Said("core")
    for _ in range(3000):
        said = Showed("u", (said,))
    with pytest.raises(InvalidValue, match="nested deeper than 200") as caught:
        encode(attrs.evolve(EXAMPLE, said=said))
    assert caught.value.path.startswith("sample.everything.said.inner[0].inner[0]")


def changed(*, facts: dict[str, Value] | None = None, content: dict[str, Value] | None = None) -> Everything:
    """Decode the example with some of its stored fields replaced."""
    encoded = encode(EXAMPLE)
    record = record_of(encoded)
    stored_facts = {**unpack_map(encoded.facts), **(facts or {})}
    stored_content = {**unpack_map(encoded.content[16:]), **(content or {})}
    record = attrs.evolve(record, facts=pack_map(stored_facts), content=SALT + pack(stored_content))
    event = REGISTRY.decode(record)
    assert isinstance(event, Everything)
    return event


@pytest.mark.parametrize(
    ("facts", "content", "message"),
    [
        ({"count": "1"}, {}, "sample.everything.count: str is not an integer"),
        ({"count": 1.0}, {}, "sample.everything.count: float is not an integer"),
        ({"ratio": 1}, {}, "sample.everything.ratio: int is not a number"),
        ({"tags": "ab"}, {}, "sample.everything.tags: str is not a list"),
        ({"tags": ["a", 1]}, {}, r"sample.everything.tags\[1\]: int is not text"),
        ({"color": "green"}, {}, "sample.everything.color: str is not a value of Color"),
        ({"price": {"nanos": 1, "more": 2}}, {}, "sample.everything.price: unknown field 'more' of Price"),
        ({"price": {}}, {}, "sample.everything.price: lacks the field 'nanos'"),
        ({"price": {"nanos": -1}}, {}, "sample.everything.price: nanos is at least 0"),
        ({"price": "x"}, {}, "sample.everything.price: str is not a map for Price"),
        ({"strange": 1}, {}, "sample.everything has the unknown fact 'strange'"),
        ({"text": "x"}, {}, "sample.everything has the unknown fact 'text'"),
        ({}, {"count": 1}, "sample.everything has the unknown content field 'count'"),
        ({}, {"said": {"kind": "sang"}}, "sample.everything.said: kind is not one of said, showed"),
        ({}, {"said": {"text": "x"}}, "sample.everything.said: lacks the field 'kind'"),
        (
            {},
            {"said": {"kind": "showed", "url": "u", "inner": [{"kind": "said"}]}},
            r"said.inner\[0\]: lacks the field",
        ),
        ({}, {"text": None}, "sample.everything.text: NoneType is not text"),
        ({}, {"text": "ERASED", "number": "1"}, "sample.everything.number: str is not one of"),
    ],
)
def test_what_does_not_fit_is_not_read(facts: dict[str, Value], content: dict[str, Value], message: str) -> None:
    with pytest.raises(JournalCorrupt, match=rf"position 7: .*{message}") as caught:
        changed(facts=facts, content=content)
    assert caught.value.position == 7


def test_a_missing_field_is_named() -> None:
    record = attrs.evolve(record_of(encode(EXAMPLE)), facts=pack_map({"run": "r"}))
    with pytest.raises(JournalCorrupt, match=r"position 7: sample.everything lacks the field 'count'"):
        REGISTRY.decode(record)
    record = attrs.evolve(record_of(encode(Noted("x"))), content=b"")
    with pytest.raises(JournalCorrupt, match=r"position 7: sample.noted lacks the field 'text'"):
        REGISTRY.decode(record)


def test_bytes_that_are_no_map_are_corrupt() -> None:
    record = record_of(encode(EXAMPLE))
    for damaged in (
        attrs.evolve(record, facts=b"\xc1"),
        attrs.evolve(record, facts=b"\x01"),
        attrs.evolve(record, content=SALT),
        attrs.evolve(record, content=SALT + b"\x90"),
    ):
        with pytest.raises(JournalCorrupt, match=r"position 7: "):
            REGISTRY.decode(damaged)


@settings(max_examples=200)
@given(st.data(), everything)
def test_damaged_records_are_events_or_corrupt(data: st.DataObject, event: Everything) -> None:
    record = record_of(encode(event))
    column = data.draw(st.sampled_from(["facts", "content"]))
    stored = getattr(record, column)
    at = data.draw(st.integers(0, len(stored) - 1))
    damaged = stored[:at] + data.draw(st.binary(max_size=2)) + stored[at + 1 :]
    try:
        back = REGISTRY.decode(attrs.evolve(record, **{column: damaged}))
    except JournalCorrupt:
        return
    encode(back)


def test_content_of_a_sealed_record_is_erased_and_facts_are_not() -> None:
    record = attrs.evolve(record_of(encode(EXAMPLE)), key_id="key-1", content=b"sealed")
    back = REGISTRY.decode(record)
    assert isinstance(back, Everything)
    assert back.count == 1
    assert back.price == Price(5)
    contents = (back.text, back.anything, back.said, back.either, back.number, back.extra, back.note)
    assert all(content is ERASED for content in contents)


BIG = "x" * 40_000


def test_large_content_is_stored_apart_and_comes_back() -> None:
    event = Noted(BIG, other=[BIG, 1])
    encoded = encode(event)
    assert encoded.large == len(encoded.values) == 2
    assert len(encoded.content) < 200
    for value in encoded.values:
        assert value.domain == "sample/1"
        assert value.digest == hashlib.sha256(value.data).digest()
    assert REGISTRY.decode(record_of(encoded)) == event


def test_content_is_stored_apart_only_field_by_field_beyond_the_limit() -> None:
    event = Noted("x" * 30_000, other="y" * 30_000)
    encoded = encode(event)
    assert encoded.large == 0
    assert encoded.values == ()
    assert REGISTRY.decode(record_of(encoded)) == event


def test_equal_large_values_are_stored_once_in_a_domain_and_share_nothing_across_domains() -> None:
    twice = encode(Noted(BIG, other=BIG))
    assert twice.large == 2
    assert len(twice.values) == 1

    def digest(stream: str, domain: Domain | None) -> bytes:
        encoded = REGISTRY.encode(Noted(BIG), stream=stream, domain=domain, salt16=SALT)
        return encoded.values[0].digest

    salted = Domain("run/1", b"s" * 32)
    assert digest("a", None) == digest("a", None)
    assert digest("a", None) != digest("b", None)
    assert digest("a", salted) == digest("b", salted)
    assert digest("a", salted) != digest("a", Domain("run/1", b"t" * 32))
    assert digest("a", salted) != digest("a", Domain("run/2", b"s" * 32))
    assert digest("a", salted) != digest("a", None)


def test_a_missing_large_value_is_corrupt() -> None:
    record = record_of(encode(Noted(BIG)))
    with pytest.raises(JournalCorrupt, match=r"position 7: the large value [0-9a-f]{64} is missing"):
        REGISTRY.decode(attrs.evolve(record, values={}))


def test_erased_is_one_value_and_reads_well() -> None:
    assert repr(ERASED) == "ERASED"
    assert pickle.loads(pickle.dumps(ERASED)) is ERASED
