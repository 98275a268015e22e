from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper_adapters.openai._sse import EventParser, ServerEvent


def _events(*pieces: bytes) -> list[ServerEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)] + parser.end()


def _data(*pieces: bytes) -> list[str]:
    return [event.data for event in _events(*pieces)]


def test_only_lf_cr_and_cr_lf_end_a_line() -> None:
    text = "a\u2028b\u0085c\x0bd\x1ce"
    assert _data(f"data: {text}\r\ndata: 2\r\rdata:3\n\n".encode()) == [f"{text}\n2", "3"]


def test_comments_other_fields_and_byte_order_mark() -> None:
    stream = b"\xef\xbb\xbfevent: error\n: PROCESSING\nid: 7\nretry: 9\ndata: x\n\n\n\ndata\n\n"
    assert _events(stream) == [ServerEvent("error", "x"), ServerEvent("", "")]


def test_an_open_event_counts_at_the_end() -> None:
    assert _data(b"data: 1\n\ndata: 2") == ["1", "2"]
    assert _data(b"data: 1\r") == ["1"]


@given(st.lists(st.sampled_from(["data: ü\u2028", "\r", "\n", "\r\n", "data:x", ":c", "event: e", "\n\n"])), st.data())
def test_the_cut_of_the_bytes_does_not_matter(parts: list[str], data: st.DataObject) -> None:
    whole = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    edges = [0, *cuts, len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(edges)]
    assert _events(*pieces) == _events(whole)


@pytest.mark.parametrize("last", [b"6", b"\ndata:6\n"])
def test_an_event_without_end_is_refused(last: bytes) -> None:
    parser = EventParser(limit=10)
    parser.feed(b"data:12345")
    with pytest.raises(ValueError, match="longer than 10"):
        parser.feed(last)


def test_events_that_end_are_not_counted_together() -> None:
    parser = EventParser(limit=10)
    assert [event.data for _ in range(3) for event in parser.feed(b"data:12345\n\n")] == ["12345"] * 3
