"""Rules and moments of what people ask of a run beside its task."""

from __future__ import annotations

import datetime as dt

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.shell import RUN, SALT, FakeTool, Shell, folded, folded_by

from trouper import Effect, Human, Principal, SteerError, TrouperError
from trouper._moments import iso, nanoseconds
from trouper.core import events as ev
from trouper.core.commands import Already
from trouper.core.control_commands import INBOX, extend_deadline, pause_run, steer_run
from trouper.core.conversation import AI, ToolCall
from trouper.core.decide import decide
from trouper.core.exchange import ModelReply
from trouper.core.state import RunState
from trouper.core.steps import Hear, PassDeadline, RequestModel
from trouper.errors import InvalidValue
from trouper.runtime.protocol import Replied
from trouper.tools import Timer
from trouper_journal import ERASED

MARIA = Principal("maria")


def shell() -> Shell:
    """A run whose model is asked."""
    made = Shell({"look": FakeTool(Effect.READ_ONLY)})
    made.submit(None)
    made.drive()
    return made


def spoken_to(state: RunState, *words: str) -> RunState:
    return folded_by(state, (steer_run(state, (Human("", word),), by=MARIA) for word in words))


def test_a_run_keeps_so_many_words_unheard_and_no_more() -> None:
    state = spoken_to(shell().state, *map(str, range(INBOX)))
    assert len(state.control.inbox) == INBOX
    with pytest.raises(SteerError, match=f"{INBOX} messages wait to be heard"):
        steer_run(state, (Human("", "one more"),), by=MARIA)


def test_words_are_heard_up_to_a_signal_and_later_ones_wait() -> None:
    made = shell()
    state = spoken_to(made.state, "one", "two")
    first = state.control.inbox[0].version
    heard = folded_by(state, [ev.RunHeard(first)])
    assert [message.content for message in heard.messages[1:]] == ["one"]
    assert [signal.messages[0].content for signal in heard.control.inbox] == ["two"]
    # Their digests enter that of the next request.
    assert heard.chain != state.chain


def test_words_whose_content_was_erased_are_heard_as_nothing() -> None:
    made = shell()
    made.append(steer_run(made.state, (Human("", "wait"),), by=MARIA))
    made.deliver(Replied(0, 1, ModelReply(AI("", "done"))))
    kept = [
        event if not isinstance(event, ev.RunSignalled) else ev.RunSignalled(ERASED, ERASED) for event in made.events
    ]
    state = folded(kept)
    assert decide(state) == decide(made.state) == (Hear(4),)
    assert [message.role for message in folded_by(state, [ev.RunHeard(4)]).messages] == ["human", "ai"]


def test_nothing_is_heard_between_a_call_and_its_answer() -> None:
    made = shell()
    made.append(steer_run(made.state, (Human("", "wait"),), by=MARIA))
    made.deliver(Replied(0, 1, ModelReply(AI("", None, (ToolCall("", "look", '{"n":1}'),)), "tool_calls")))
    made.drive()
    assert made.state.control.inbox
    assert not any(isinstance(step, Hear) for step in decide(made.state))


def test_a_pause_holds_requests_back_and_lets_the_deadline_pass() -> None:
    made = Shell({})
    made.submit(None, deadline=2_000)
    event = pause_run(made.state, by=MARIA, reason=None)
    assert isinstance(event, ev.PauseRequested)
    made.append(event)
    assert isinstance(pause_run(made.state, by=MARIA, reason=None), Already)
    assert decide(made.state) == (PassDeadline(2_000),)
    made.append(ev.ResumeRequested(MARIA))
    made.drive()
    assert made.model == (0, 1)
    assert not any(isinstance(step, RequestModel) for step in decide(made.state))


def test_a_deadline_can_only_become_later() -> None:
    made = Shell({})
    made.submit(None, deadline=2_000)

    def extended(deadline: int | None, now: int = 1_000) -> object:
        return extend_deadline(made.state, deadline, by=MARIA, reason=None, now=now)

    assert isinstance(extended(2_000), Already)
    assert extended(3_000) == ev.DeadlineExtended(3_000, MARIA)
    assert extended(None) == ev.DeadlineExtended(None, MARIA)
    for deadline, now in ((1_500, 1_000), (3_000, 3_000)):
        with pytest.raises(TrouperError, match="can only be extended"):
            extended(deadline, now)


# ---- moments


@given(st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2262, 1, 1), timezones=st.timezones()))  # noqa: DTZ001 -- hypothesis wants them so
def test_a_datetime_is_the_same_moment_in_every_zone(moment: dt.datetime) -> None:
    count = nanoseconds(moment, "it")
    assert count == nanoseconds(moment.astimezone(dt.UTC), "it") == nanoseconds(count, "it")
    assert dt.datetime.fromisoformat(iso(count)) == moment.astimezone(dt.UTC).replace(microsecond=0)


@given(st.integers(0, 10**18), st.floats(0, 10**9))
def test_a_timer_of_seconds_is_set_from_now_and_one_of_a_moment_is_not(now: int, seconds: float) -> None:
    assert Timer(seconds=seconds).moment(now) == min(now + round(seconds * 10**9), 2**63 - 1)
    assert Timer(until=now).moment(now + 5) == now


@pytest.mark.parametrize("bad", [None, "now", 1.5, True, -1, 2**63])
def test_what_is_no_moment_is_refused(bad: object) -> None:
    with pytest.raises(InvalidValue, match="it"):
        nanoseconds(bad, "it")  # type: ignore[arg-type]  # that is the point


def test_the_state_of_a_run_of_which_nobody_asked_anything_is_the_shared_one() -> None:
    state = shell().state
    assert state.run == RUN
    assert state.salt == SALT
    assert state.control is RunState("x").control
    assert attrs.asdict(state.control)["inbox"] == ()
