"""A run's conversation as others see it who start from it: closed, so that it is valid for the wire, and digested."""

from __future__ import annotations

from attrs import frozen

from trouper.core import wording
from trouper.core.base import Base, HistoryRef
from trouper.core.conversation import Content, Message, ToolMessage
from trouper.core.digests import extend_chain
from trouper.core.evolve_session import lead_of
from trouper.core.state import Action, Phase, RunState
from trouper_journal import Plain


def closed_history(state: RunState) -> tuple[Message, ...]:
    """The run's own messages, with an answer for each call that is still open.

    A run that has ended has none of these. At any other version the answers say what was known there: a call that is
    over has its real result, and one that is not has an error that tells "not started" from "no result yet".
    """
    return (*state.messages, *_answers(state))


def _answers(state: RunState) -> tuple[ToolMessage, ...]:
    if not state.batch and not state.unplanned:
        return ()
    known = [(action.action, action.tool, *_told(action)) for action in state.batch]
    known += [(name, call.name, wording.NOT_STARTED, False) for name, call in state.unplanned]
    return tuple(
        ToolMessage(
            id=f"{state.run}/{name}",
            call_id=f"{state.run}/{name}",
            name=tool,
            content=content,
            status="ok" if ok else "error",
        )
        for name, tool, content, ok in sorted(known, key=lambda call: int(call[0].partition(".")[2]))
    )


def _told(action: Action) -> tuple[Content, bool]:
    match action.phase:
        case Phase.CLOSED:
            return action.parts or action.text, bool(action.ok)
        case Phase.STARTED | Phase.SLEEPING | Phase.INTERRUPTED | Phase.UNRESOLVED | Phase.REPEAT | Phase.RESOLVED:
            return wording.UNDER_WAY, False
        case _:
            return wording.NOT_STARTED, False


@frozen(slots=False, repr=False, eq=False)
class Segment(Plain):
    """A run's own part of a history, as it stood at one version; it never changes.

    Attributes:
        run: The run's id.
        version: The version.
        base: What the run started from.
        lead: A message of the runtime's before all of that, such as the summary of what was dropped.
        messages: The run's own messages, closed.
        chain: Running digest over base and messages.
        erased: Whether some of it is gone, so that digests can no longer be compared.
    """

    run: str
    version: int
    base: Base | None
    lead: Message | None
    messages: tuple[Message, ...]
    salt: bytes
    chain: bytes
    erased: bool = False


@frozen(slots=False, repr=False, eq=False)
class Piece(Plain):
    """Messages of one run in a history.

    Attributes:
        ref: Where they stand.
        messages: The messages.
        lead: Whether they are the runtime's own words in the place of what came before, and not part of any run.
        erased: Whether some of what was said in that run is gone.
    """

    ref: HistoryRef
    messages: tuple[Message, ...]
    lead: bool = False
    erased: bool = False


def segment_of(state: RunState) -> Segment:
    """The run as it stands, for others to start from."""
    answers = _answers(state)
    chain = state.chain
    for message in answers:
        chain = extend_chain(chain, state.salt, message)
    return Segment(
        run=state.run,
        version=state.version,
        base=state.base if state.base is not None and state.base.pinned else None,
        lead=lead_of(state),
        messages=(*state.messages, *answers),
        salt=state.salt,
        chain=chain,
        erased=state.erased,
    )


def stretch(segment: Segment, ref: HistoryRef) -> tuple[Message, ...]:
    """The run's own messages that a reference names."""
    end = None if ref.take is None else ref.skip + ref.take
    return segment.messages[ref.skip : end]


def ref_digest(segment: Segment, ref: HistoryRef) -> bytes:
    """Keyed digest over the messages that a reference names."""
    if ref.whole and ref.skip == 0 and (ref.take is None or ref.take >= len(segment.messages)):
        return segment.chain
    chain = segment.base.chain if ref.whole and segment.base is not None else b""
    for message in stretch(segment, ref):
        chain = extend_chain(chain, segment.salt, message)
    return chain
