"""What the folds of all events share."""

from __future__ import annotations

from typing import TypeVar

from trouper.core.budget import Budget
from trouper.core.conversation import Message, Part
from trouper.core.digests import extend_chain
from trouper.core.state import Action, RunState
from trouper.core.tooling import Tooling
from trouper_journal import Value

_T = TypeVar("_T", RunState, Action, Budget, Tooling)


def changed(value: _T, **changes: object) -> _T:
    """The value with other fields.

    What `attrs.evolve` does, for classes without slots, converters and validators, in a tenth of its time: it was
    a third of the fold's.

    Raises:
        TypeError: There is no such field.
    """
    return _with(value, changes)


def advanced(state: RunState, **changes: object) -> RunState:
    """The state one event on."""
    changes["version"] = state.version + 1
    return _with(state, changes)


def _with(value: _T, changes: dict[str, object]) -> _T:
    before = value.__dict__
    # A copy of a dict is made in one piece; filling another with the same takes twice as long.
    fields = before.copy()
    fields.update(changes)
    if len(fields) != len(before):
        raise TypeError(f"{type(value).__name__} has no field {', '.join(changes.keys() - value.__dict__.keys())}")
    made = object.__new__(type(value))
    object.__setattr__(made, "__dict__", fields)
    return made


def content_parts(value: Value) -> tuple[Part, ...]:
    """Content parts as they were journaled; none where there are none."""
    return tuple(part for part in value if isinstance(part, dict)) if isinstance(value, list) else ()


def say(state: RunState, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], bytes]:
    """The conversation with these messages behind it, and its chain of digests."""
    chain = state.chain
    for message in messages:
        chain = extend_chain(chain, state.salt, message)
    return state.messages + messages, chain
