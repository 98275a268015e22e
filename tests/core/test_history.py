"""The history that a run starts from: referenced, closed, digested."""

from __future__ import annotations

import attrs
import pytest
from tests.core.shell import RUN, SALT, FakeTool, Shell, folded, unanswered

from trouper.core import events as ev
from trouper.core.base import Base, HistoryRef, base_chain
from trouper.core.conversation import AI, Human, ToolCall, ToolMessage
from trouper.core.digests import extend_chain
from trouper.core.effects import Effect
from trouper.core.exchange import ModelReply
from trouper.core.history import closed_history, ref_digest, segment_of, stretch
from trouper.core.replay import check
from trouper.runtime.protocol import Acted, Replied

TOOLS = {"put": FakeTool(Effect.IDEMPOTENT_WRITE), "sign": FakeTool(Effect.READ_ONLY, gated=True)}


def with_three_calls() -> Shell:
    """A run in the middle of a reply: one call is over, one is under way, one waits for a person."""
    shell = Shell(TOOLS)
    shell.submit(None)
    shell.drive()
    asked = tuple(ToolCall("", name, "{}") for name in ("put", "put", "sign"))
    shell.deliver(Replied(0, 1, ModelReply(AI("", None, asked))))
    shell.drive()
    shell.deliver(Acted("0.0", 1, "returned", "put it"))
    shell.drive()
    return shell


def test_every_open_call_of_a_history_is_answered_with_what_is_known() -> None:
    shell = with_three_calls()
    assert [action.phase.value for action in shell.state.batch] == ["closed", "started", "awaiting"]
    messages = closed_history(shell.state)
    assert unanswered(messages) == []
    answers = [(m.status, m.content) for m in messages if isinstance(m, ToolMessage)]
    assert answers == [
        ("ok", "put it"),
        ("error", "No result yet: the call was still under way at this point of the conversation."),
        ("error", "Not started."),
    ]


def test_a_history_is_valid_at_every_version() -> None:
    shell = with_three_calls()
    for version in range(1, len(shell.events) + 1):
        state = folded(shell.events[:version])
        segment = segment_of(state)
        assert unanswered(segment.messages) == []
        chain = b""
        for message in segment.messages:
            chain = extend_chain(chain, SALT, message)
        assert segment.chain == chain


def test_calls_that_nobody_looked_at_yet_are_answered_in_the_order_asked() -> None:
    shell = with_three_calls()
    replied = next(number for number, event in enumerate(shell.events) if isinstance(event, ev.ModelResponded))
    state = folded(shell.events[: replied + 1])
    assert len(state.unplanned) == 3
    assert [m.content for m in closed_history(state) if isinstance(m, ToolMessage)] == ["Not started."] * 3


def test_the_chain_of_a_run_goes_on_where_its_base_ends() -> None:
    ref = HistoryRef("01OTHER", 7, digest=b"d" * 32)
    base = Base((ref,), base_chain(b"", (ref,)), 4)
    submitted = ev.RunSubmitted("desk", None, (Human("h", "go"),), SALT, base=Base((HistoryRef("01OTHER", 7),)))
    started = ev.RunStarted("d", "c", "p", 1, ev.Limits(), base=base)
    before, after = folded([submitted]), folded([submitted, started])
    assert before.base is not None
    assert not before.base.pinned
    assert after.base == base
    assert after.messages == before.messages
    assert after.chain == extend_chain(base.chain, SALT, Human("h", "go"))
    assert after.chain != before.chain
    state, difference = check(RUN, [submitted, started])
    assert difference is None
    assert state.base == base


@pytest.mark.parametrize(
    ("skip", "take", "expected"), [(0, None, "abc"), (1, None, "bc"), (0, 2, "ab"), (1, 1, "b"), (0, 9, "abc")]
)
def test_a_stretch_is_what_its_reference_names(skip: int, take: int | None, expected: str) -> None:
    messages = tuple(Human(letter, letter) for letter in "abc")
    segment = segment_of(folded([ev.RunSubmitted("desk", None, messages, SALT)]))
    ref = HistoryRef(RUN, 1, skip=skip, take=take)
    assert "".join(message.id for message in stretch(segment, ref)) == expected
    chain = b""
    for letter in expected:
        chain = extend_chain(chain, SALT, Human(letter, letter))
    assert ref_digest(segment, ref) == ref_digest(segment, attrs.evolve(ref, whole=False)) == chain
