"""Whose content is made unreadable together, and what is said where it cannot be read."""

from __future__ import annotations

from trouper.core.family import root_of
from trouper.core.state import RunState
from trouper_journal import Domain, Opened, Record, Withheld


def session_of(state: RunState) -> str | None:
    """The session that a run's tree belongs to; None where it belongs to none."""
    if state.turn is not None:
        return state.turn.place.session
    return None if state.family.parent is None else state.family.parent.session


def domain_name(state: RunState) -> str:
    """Name of the erasure domain of a run's content: its session, or where it is in none, its tree."""
    session = session_of(state)
    return f"run/{root_of(state.run)}" if session is None else f"session/{session}"


def domain_of(state: RunState) -> Domain | None:
    """The erasure domain of a run's content; None where the run itself cannot be read."""
    return Domain(domain_name(state), state.salt) if state.salt else None


def is_withheld(record: Record) -> bool:
    """Whether a record's content is sealed, and could not be opened."""
    return record.key_id is not None and not isinstance(record.opened, Opened)


def why_withheld(record: Record) -> str:
    """In words, why a record's content could not be opened."""
    found = record.opened
    return found.details if isinstance(found, Withheld) else f"sealed with key {record.key_id}, and no keys were given"
