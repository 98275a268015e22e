"""Values: what goes in comes out, bad values are refused by path, bad bytes are refused, one form for digests."""

from __future__ import annotations

import math
from collections import OrderedDict
from types import MappingProxyType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trouper_journal import InvalidValue, JournalCorrupt, Value, canonical, check_value, pack, pack_map, unpack
from trouper_journal._values import MAX_DEPTH, MAX_INT_BYTES, Reference, pack_plain, references, unpack_map

texts = st.text(st.characters(codec=None, exclude_categories=())) | st.text()
integers = st.integers() | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 2**200])
leaves = st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts | st.binary()
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=25)


def exactly(left: object, right: object) -> bool:
    """Equality that tells True from 1, 1 from 1.0, and 0.0 from -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(exactly(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(exactly, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return left == right


@given(values)
@example({"\ud800": ["\udfff", 2**64, -(2**63) - 1, -0.0]})
def test_every_value_comes_back_as_it_went_in(value: Value) -> None:
    assert exactly(unpack(pack(value)), value)


@given(values)
def test_packed_bytes_are_the_only_ones_for_their_value(value: Value) -> None:
    data = pack(value)
    assert pack(unpack(data)) == data


@given(st.dictionaries(texts, leaves))
def test_maps_of_fields_come_back_and_the_empty_one_is_no_bytes(fields: dict[str, Value]) -> None:
    data = pack_map(fields)
    assert exactly(unpack_map(data), fields)
    assert bool(data) == bool(fields)


@settings(max_examples=500)
@given(
    st.binary()
    | values.map(pack).flatmap(
        lambda data: st.tuples(st.just(data), st.integers(0, len(data) - 1), st.binary(max_size=3)).map(
            lambda cut: cut[0][: cut[1]] + cut[2] + cut[0][cut[1] + 1 :]
        )
    )
)
@example(b"\xd6\xff\x00\x00\x00\x00")
@example(b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00")
@example(b"\xca\x7f\x80\x00\x00")
@example(b"\x91" * 300 + b"\xc0")
@example(b"\x91" * 1200 + b"\xc0")
@example(b"\xdd\xff\xff\xff\xff")
def test_any_bytes_are_a_value_or_corrupt(data: bytes) -> None:
    try:
        value = unpack(data)
    except JournalCorrupt:
        return
    check_value(value)
    assert exactly(unpack(pack(value)), value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc0\xc0",  # more than one value
        b"\xc1",  # never used
        b"\x82\xa1a\x01\xa1a\x02",  # the same key twice
        b"\x81\x01\x02",  # a key that is a number
        b"\x81\xc4\x01a\x02",  # a key that is bytes
        b"\xa1\xff",  # text that is not UTF-8
        b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",  # not a number
        b"\xcb\xff\xf0\x00\x00\x00\x00\x00\x00",  # minus infinity
        b"\xca\x7f\xc0\x00\x00",  # not a number, in 32 bits
        b"\x91\xd6\xff\x00\x00\x00\x00",  # a timestamp of 4 bytes
        b"\xd7\xff" + bytes(8),  # of 8 bytes
        b"\xc7\x0c\xff" + bytes(12),  # of 12 bytes
        b"\xc7\x08\x01" + bytes(8),  # a big integer that is small
        b"\xc7\x0a\x01\x00\x01" + bytes(8),  # one that is longer than it need be
        b"\xc7\x00\x01",  # one of no bytes
        b"\xc8\x07\x08\x01" + b"\x7f" * 1800,  # one beyond the limit
        b"\xc7\x28\x02" + bytes(40),  # a reference where none may be
        b"\xd4\x05\x00",  # an unknown extension
        b"\x91" * (MAX_DEPTH + 1) + b"\x01",
    ],
)
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(JournalCorrupt):
        unpack(data)


def test_a_damaged_value_is_not_quoted_in_the_error() -> None:
    with pytest.raises(JournalCorrupt) as caught:
        unpack(pack("the patient's name") + b"\xff")
    assert "patient" not in str(caught.value)
    assert caught.value.__cause__ is None


def nest(levels: int) -> Value:
    value: Value = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_is_bounded() -> None:
    assert unpack(pack(nest(MAX_DEPTH))) == nest(MAX_DEPTH)
    with pytest.raises(InvalidValue, match="nested deeper than 200"):
        pack(nest(MAX_DEPTH + 1))


def test_integers_are_bounded_where_python_can_still_print_them() -> None:
    largest = 2 ** (8 * MAX_INT_BYTES - 1) - 1
    assert unpack(pack([largest, -largest - 1])) == [largest, -largest - 1]
    assert len(str(largest)) < 4300
    with pytest.raises(InvalidValue, match=r"price\[1\]: an integer of more than 1784 bytes"):
        pack({"price": [largest, largest + 1]})


def ring() -> Value:
    inner: list[Value] = []
    inner.append({"again": inner})
    return {"outer": inner}


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (math.nan, "", "nan is not a number"),
        ({"a": [1, {"b": math.inf}]}, "a[1].b", "inf is not a number"),
        ({"a": {1: 2}}, "a", "key 1 is not text"),
        ({"a": {b"k": 2}}, "a", "is not text"),
        ([0, object()], "[1]", "object of type object is not data"),
        ({"s": {1, 2}}, "s", "object of type set is not data"),
        ([bytearray(b"x")], "[0]", "object of type bytearray is not data"),
        ([1j], "[0]", "object of type complex is not data"),
        (ring(), "outer[0].again", "contains itself"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_path(value: object, path: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason) as caught:
        check_value(value)
    assert caught.value.path == path


def test_the_path_begins_with_the_name_that_the_caller_gives() -> None:
    with pytest.raises(InvalidValue) as caught:
        check_value({"items": [{"price": math.nan}]}, "arguments")
    assert caught.value.path == "arguments.items[0].price"


def test_the_same_list_in_two_places_is_no_cycle() -> None:
    shared: list[Value] = [1]
    assert unpack(pack({"a": shared, "b": [shared, shared]})) == {"a": [1], "b": [[1], [1]]}


def test_a_value_beyond_the_size_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trouper_journal._values.MAX_SIZE", 100)
    assert pack("x" * 98)
    with pytest.raises(InvalidValue, match="101 bytes when packed, at most 100"):
        pack("x" * 99)
    with pytest.raises(JournalCorrupt, match="beyond the limit"):
        unpack(b"\xd9\x63" + b"x" * 99)


class Text(str):
    __slots__ = ()


class Number(int):
    pass


def test_subclasses_come_back_as_the_plain_type() -> None:
    parts: dict[str, Value] = {Text("a"): (Text("b"), Number(3), Number(2**70)), "c": MappingProxyType({"d": 1})}
    back = unpack(pack(OrderedDict(parts)))
    assert exactly(back, {"a": ["b", 3, 2**70], "c": {"d": 1}})


def shuffled(value: Value) -> Value:
    """The same value with its maps in reverse order and its lists as tuples."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    if isinstance(value, list):
        return tuple(shuffled(item) for item in value)
    return value


@given(values)
def test_the_canonical_form_does_not_depend_on_order_or_on_tuples(value: Value) -> None:
    assert canonical(shuffled(value)) == canonical(value)
    assert exactly(unpack(canonical(value)), value)


@given(values, values)
def test_different_values_have_different_canonical_forms(left: Value, right: Value) -> None:
    assert (canonical(left) == canonical(right)) == exactly(left, right)


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ("a", b"a"), (None, False)])
def test_values_that_python_takes_for_equal_have_different_canonical_forms(left: Value, right: Value) -> None:
    assert canonical(left) != canonical(right)
    assert canonical([left]) != canonical([right])


@given(st.dictionaries(texts, st.none(), min_size=2))
def test_keys_stand_in_the_order_of_their_utf_8_bytes(value: dict[str, Value]) -> None:
    names = unpack(canonical(value))
    assert isinstance(names, dict)
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    assert encoded == sorted(encoded)


def test_references_are_read_only_where_large_values_are_given() -> None:
    stored = bytes(16) + pack({"big": [1, 2]})
    reference = Reference(bytes(range(32)), len(stored))
    data = pack_plain({"a": 1, "b": reference, "c": reference})
    assert references(data) == (reference, reference)
    assert unpack(data, {reference.digest: stored}) == {"a": 1, "b": {"big": [1, 2]}, "c": {"big": [1, 2]}}
    with pytest.raises(JournalCorrupt, match="extension 2 has no meaning"):
        unpack(data)
    with pytest.raises(JournalCorrupt, match=f"{reference.digest.hex()} is missing"):
        unpack(data, {})
    with pytest.raises(JournalCorrupt, match="wrong length"):
        unpack(data, {reference.digest: stored + b"\xc0"})
