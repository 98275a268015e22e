"""A registry is explicit and closed: names, schema numbers, and steps from older schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from tests.journal_format.sample import REGISTRY, SALT, Counted, Noted, encode, record_of

from trouper_journal import (
    ERASED,
    Content,
    Erased,
    EventRegistry,
    InvalidRegistry,
    JournalCorrupt,
    UnknownEvent,
    UnregisteredEvent,
    Value,
    event,
    fold,
)

Stored = dict[str, Value]


@event("ticket.closed")
@attrs.frozen
class ClosedFirst:
    """Schema 1 as an old release had it."""

    by: str
    why: Content[str] = ""


@event("ticket.closed", schema=3)
@attrs.frozen
class Closed:
    """Schema 2 renamed ``by`` to ``person``; schema 3 moved it to content and needs a priority."""

    person: Content[str]
    priority: int
    why: Content[str] = ""


def rename(facts: Stored, content: Stored | Erased) -> tuple[Stored, Stored | Erased]:
    return {"person": facts["by"]}, content


def move(facts: Stored, content: Stored | Erased) -> tuple[Stored, Stored | Erased]:
    if content is not ERASED:
        content = {**content, "person": facts["person"]}
    return {"priority": 3}, content


STEPS = {("ticket.closed", 1): rename, ("ticket.closed", 2): move}
OLD = EventRegistry([ClosedFirst])
NEW = EventRegistry([Closed], upcasters=STEPS)


def test_old_schemas_are_read_through_their_steps() -> None:
    record = record_of(encode(ClosedFirst("maria", "done"), OLD))
    assert NEW.decode(record) == Closed("maria", 3, "done")
    sealed = attrs.evolve(record, key_id="key-1", content=b"sealed")
    assert NEW.decode(sealed) == Closed(ERASED, 3, ERASED)


def test_what_a_step_makes_is_checked_as_if_it_had_been_stored() -> None:
    record = attrs.evolve(record_of(encode(ClosedFirst("maria"), OLD)), facts=b"\x81\xa2by\x05")
    with pytest.raises(JournalCorrupt, match=r"position 7: ticket.closed.person: int is not text"):
        NEW.decode(record)
    with pytest.raises(JournalCorrupt, match=r"position 7: ticket.closed schema 1 does not upcast"):
        NEW.decode(attrs.evolve(record, facts=b""))


def test_newer_schemas_and_unknown_types_are_told_apart() -> None:
    record = record_of(encode(Closed("maria", 1), NEW))
    with pytest.raises(UnknownEvent, match=r"position 7: event ticket.closed schema 3 is newer than 1") as newer:
        OLD.decode(record)
    assert (newer.value.type, newer.value.schema, newer.value.known) == ("ticket.closed", 3, 1)
    with pytest.raises(UnknownEvent, match=r"position 7: event ticket.closed schema 3 is unknown here") as unknown:
        REGISTRY.decode(record)
    assert unknown.value.known is None
    with pytest.raises(JournalCorrupt, match="schema 0"):
        NEW.decode(attrs.evolve(record, schema=0))


@pytest.mark.parametrize("steps", [{}, {("ticket.closed", 2): move}, {**STEPS, ("ticket.closed", 3): move}])
def test_every_older_schema_needs_its_step_and_no_other(steps: Mapping[tuple[str, int], object]) -> None:
    with pytest.raises(InvalidRegistry, match="upcasters are missing, or lead nowhere"):
        EventRegistry([Closed], upcasters=steps)  # type: ignore[arg-type]


def test_unregistered_classes_are_not_written() -> None:
    with pytest.raises(UnregisteredEvent, match="Closed is not an event"):
        encode(Closed("m", 1), REGISTRY)
    with pytest.raises(UnregisteredEvent):
        encode("text", REGISTRY)
    with pytest.raises(UnregisteredEvent):
        REGISTRY.spec("ticket.closed")


def test_names_and_classes_are_registered_once() -> None:
    for classes in ([Counted, Counted], [ClosedFirst, Closed]):
        with pytest.raises(InvalidRegistry, match="registered twice"):
            EventRegistry(classes)
    with pytest.raises(InvalidRegistry, match="registered twice"):
        OLD | NEW


def test_registries_merge() -> None:
    both = REGISTRY | NEW
    assert both.decode(record_of(encode(ClosedFirst("maria"), OLD))) == Closed("maria", 3)
    assert both.decode(record_of(encode(Counted(2), both))) == Counted(2)
    assert [spec.type for spec in both] == ["sample.everything", "sample.counted", "sample.noted", "ticket.closed"]
    assert "ticket.closed" in both
    assert Closed in both
    assert Closed not in REGISTRY


def test_a_spec_says_what_is_stored() -> None:
    spec = REGISTRY.spec(Counted)
    assert (spec.type, spec.schema, spec.driver, spec.content) == ("sample.counted", 1, True, frozenset())
    assert REGISTRY.spec("sample.noted").content == {"text", "other"}
    assert encode(Counted()).driver
    assert not encode(Noted("")).driver


def test_a_subclass_is_another_event() -> None:
    @attrs.frozen
    class Special(Counted):
        pass

    with pytest.raises(InvalidRegistry, match="not marked with @event"):
        EventRegistry([Special])
    with pytest.raises(UnregisteredEvent):
        encode(Special(1), REGISTRY)


@pytest.mark.parametrize("name", ["", "closed", "Ticket.closed", "ticket.", "ticket closed", "ticket.closed\n"])
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidRegistry, match="not an event's name"):
        event(name)


def test_malformed_classes_are_refused() -> None:
    with pytest.raises(InvalidRegistry, match="schema 0"):
        event("a.b", schema=0)
    with pytest.raises(InvalidRegistry, match="not a frozen attrs class"):
        event("a.b")(int)
    with pytest.raises(InvalidRegistry, match="not a frozen attrs class"):
        event("a.b")(attrs.define(type("Loose", (), {})))


def refusal(annotation: Any) -> str:
    made: type = attrs.make_class("Odd", {"field": attrs.field(type=annotation)}, frozen=True)
    cls: type = event("a.b")(made)
    with pytest.raises(InvalidRegistry) as caught:
        EventRegistry([cls])
    return str(caught.value)


def test_fields_whose_values_cannot_be_stored_are_refused() -> None:
    assert "Odd.field: values of type <class 'object'> cannot be stored" in refusal(object)
    assert "cannot be stored" in refusal(set[str])
    assert "cannot be stored" in refusal(dict[int, str])
    assert "has a type" in refusal(None)
    assert "both written as list" in refusal(tuple[str, ...] | tuple[int, ...])
    assert "need one class variable" in refusal(ClosedFirst | Closed)
    assert "cannot be resolved" in refusal("Nowhere")


def test_state_is_a_fold_over_decoded_records() -> None:
    records = [record_of(encode(Counted(count)), position) for position, count in enumerate([3, 4], 1)]
    before: list[object] = ["before"]
    assert fold(REGISTRY, records, lambda state, made: [*state, made], before) == ["before", Counted(3), Counted(4)]
    unknown = record_of(encode(ClosedFirst("m"), OLD), 3)
    with pytest.raises(UnknownEvent, match="position 3"):
        fold(REGISTRY, [*records, unknown], lambda state, _: state, None)


def test_random_bytes_lead_stored_content() -> None:
    assert encode(Noted("x")).content == SALT + b"\x81\xa4text\xa1x"
