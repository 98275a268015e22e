"""Where a history that is too long is cut: the newest of it is kept, and no call is ever parted from its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from attrs import frozen

from trouper.core.base import HistoryRef
from trouper.core.conversation import Message, ToolMessage
from trouper.core.history import Piece
from trouper_journal import Plain


@frozen(slots=False, repr=False, eq=False)
class Cut(Plain):
    """What becomes of a history that is too long.

    Attributes:
        kept: What is handed on as it is.
        dropped: What is not, an earlier summary left aside.
        lost: The messages that are not handed on, an earlier summary among them.
    """

    kept: tuple[HistoryRef, ...]
    dropped: tuple[HistoryRef, ...]
    lost: tuple[Message, ...]


def cut(pieces: Sequence[Piece], count: Callable[[Message], int], *, max_tokens: int, keep_last: int) -> Cut | None:
    """Cut a history down, if it is too long.

    Half of what is allowed is left, so that not each turn cuts anew. A whole run is kept or dropped where that keeps
    enough; else the cut is within a run, before a message that answers no call.

    Args:
        pieces: The history, in order.
        count: Estimates a message's tokens.
        max_tokens: How many it may have.
        keep_last: How many messages are kept at least, as long as they are allowed together.

    Returns:
        None where it is short enough.
    """
    messages = [message for piece in pieces for message in piece.messages]
    # What each place would keep: the tokens from there to the end.
    left = list(accumulate((count(message) for message in reversed(messages)), initial=0))[::-1]
    if left[0] <= max_tokens:
        return None
    place = _place(pieces, messages, left, max_tokens=max_tokens, keep_last=keep_last)
    kept, dropped = _part(pieces, place)
    return Cut(kept, dropped, tuple(messages[:place]))


def _place(
    pieces: Sequence[Piece], messages: Sequence[Message], left: Sequence[int], *, max_tokens: int, keep_last: int
) -> int:
    """How many messages are dropped: at least one, and where nothing is short enough all."""
    starts, at = set(), 0
    for piece in pieces:
        starts.add(at)
        at += len(piece.messages)
    # A result stays with its call, and a summary stands before everything or is gone.
    places = [place for place in range(1, len(messages)) if not isinstance(messages[place], ToolMessage)]
    places = [place for place in [*places, len(messages)] if left[place] <= max_tokens]
    enough = [place for place in places if len(messages) - place >= keep_last]
    first = next((place for place in places if left[place] <= max_tokens // 2), len(messages))
    if not enough:
        return places[0]
    if first > enough[-1]:
        return enough[-1]
    return next((place for place in enough if place >= first and place in starts), first)


def _part(pieces: Sequence[Piece], place: int) -> tuple[tuple[HistoryRef, ...], tuple[HistoryRef, ...]]:
    kept: list[HistoryRef] = []
    dropped: list[HistoryRef] = []
    for piece in pieces:
        size = len(piece.messages)
        gone = min(max(place, 0), size)
        place -= size
        if piece.lead:
            continue
        ref = piece.ref
        if gone > 0:
            dropped.append(HistoryRef(ref.run, ref.version, whole=False, skip=ref.skip, take=gone))
        if gone < size:
            take = None if ref.take is None else ref.take - gone
            kept.append(HistoryRef(ref.run, ref.version, whole=False, skip=ref.skip + gone, take=take))
    return tuple(kept), tuple(dropped)
