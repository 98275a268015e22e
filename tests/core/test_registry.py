"""The runtime's events, which are looked at one by one as they are used."""

from __future__ import annotations

from trouper import REGISTRY
from trouper_journal import EventRegistry


def test_every_event_of_the_runtime_can_be_stored() -> None:
    checked = EventRegistry([spec.cls for spec in REGISTRY])
    assert list(checked) == list(REGISTRY)
