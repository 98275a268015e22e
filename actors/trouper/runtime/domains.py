"""Whose content is made unreadable together."""

from __future__ import annotations

from trouper.core.family import root_of
from trouper.core.state import RunState
from trouper_journal import Domain


def domain_of(state: RunState) -> Domain | None:
    """The erasure domain of a run's content: its tree."""
    return Domain(f"run/{root_of(state.run)}", state.salt) if state.salt else None
