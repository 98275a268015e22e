"""Where a history that is too long is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.shell import unanswered

from trouper.core.base import HistoryRef
from trouper.core.compaction import cut
from trouper.core.conversation import AI, Human, Message, ToolCall, ToolMessage
from trouper.core.history import Piece


def ten(_: Message) -> int:
    return 10


def turn(run: str, calls: tuple[int, ...] = ()) -> Piece:
    """A run: a question, batches of so many calls, an answer."""
    messages: list[Message] = [Human(f"{run}/input", "q")]
    for index, size in enumerate(calls):
        ids = [f"{run}/{index}.{place}" for place in range(size)]
        messages.append(AI(f"{run}/{index}", None, tuple(ToolCall(each, "t", "{}") for each in ids)))
        messages += [ToolMessage(each, each, "t", "done") for each in ids]
    messages.append(AI(f"{run}/{len(calls)}", "a"))
    return Piece(HistoryRef(run, 9), tuple(messages))


TURNS = st.lists(st.lists(st.integers(1, 3), max_size=3).map(tuple), min_size=1, max_size=6)


def taken(pieces: list[Piece], refs: tuple[HistoryRef, ...]) -> list[Message]:
    """The messages that own stretches name."""
    by_run = {piece.ref.run: piece.messages for piece in pieces if not piece.lead}
    found: list[Message] = []
    for ref in refs:
        assert not ref.whole
        found += by_run[ref.run][ref.skip : None if ref.take is None else ref.skip + ref.take]
    return found


@given(TURNS, st.integers(1, 400), st.integers(0, 12), st.booleans())
def test_a_cut_history_is_short_and_whole(
    shapes: list[tuple[int, ...]], max_tokens: int, keep_last: int, summarised: bool
) -> None:
    pieces = [turn(f"r{number}", shape) for number, shape in enumerate(shapes)]
    if summarised:
        pieces.insert(0, Piece(HistoryRef("r0", 9), (Human("r0/summary", "long ago"),), lead=True))
    messages = [message for piece in pieces for message in piece.messages]
    found = cut(pieces, ten, max_tokens=max_tokens, keep_last=keep_last)
    if len(messages) * 10 <= max_tokens:
        assert found is None
        return
    assert found is not None
    kept, dropped = taken(pieces, found.kept), taken(pieces, found.dropped)
    assert [*found.lost, *kept] == messages
    assert dropped == list(found.lost[summarised:])
    assert len(kept) * 10 <= max_tokens
    assert unanswered(kept) == []
    assert unanswered(dropped) == []
    if len(kept) * 10 > max_tokens // 2:
        # Only what must be kept is more than the half: one group less would be too little.
        first = next(place for place in range(1, len(kept) + 1) if place == len(kept) or kept[place].role != "tool")
        assert len(kept) - first < keep_last


def test_whole_runs_are_dropped_where_that_is_enough() -> None:
    pieces = [turn("r1"), turn("r2", (2,)), turn("r3")]
    found = cut(pieces, ten, max_tokens=80, keep_last=2)
    assert found is not None
    assert found.kept == (HistoryRef("r3", 9, whole=False),)
    assert found.dropped == (
        HistoryRef("r1", 9, whole=False, take=2),
        HistoryRef("r2", 9, whole=False, take=5),
    )


@pytest.mark.parametrize(("keep_last", "skip"), [(0, 10), (2, 10), (4, 10), (5, 7), (8, 7)])
def test_a_single_long_run_is_cut_between_batches(keep_last: int, skip: int) -> None:
    pieces = [turn("r1", (2, 2, 2, 2))]
    found = cut(pieces, ten, max_tokens=95, keep_last=keep_last)
    assert found is not None
    assert found.kept == ((HistoryRef("r1", 9, whole=False, skip=skip),) if skip else ())


def test_where_nothing_is_short_enough_nothing_is_kept() -> None:
    found = cut([turn("r1", (3,))], ten, max_tokens=5, keep_last=3)
    assert found is not None
    assert found.kept == ()
    assert len(found.lost) == 6
