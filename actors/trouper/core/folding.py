"""What the folds of all events share."""

from __future__ import annotations

import attrs

from trouper.core.conversation import Message
from trouper.core.digests import extend_chain
from trouper.core.state import RunState


def advanced(state: RunState, **changes: object) -> RunState:
    """The state one event on."""
    return attrs.evolve(state, version=state.version + 1, **changes)  # type: ignore[arg-type]  # checked by attrs


def say(state: RunState, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], bytes]:
    """The conversation with these messages behind it, and its chain of digests."""
    chain = state.chain
    for message in messages:
        chain = extend_chain(chain, state.salt, message)
    return state.messages + messages, chain
