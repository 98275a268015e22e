"""The life cycle table and the supervision policy: both pure."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper.kit import Supervision
from trouper.kit._lifecycle import TRANSITIONS, IllegalMove, Incident, State, step
from trouper.kit._supervision import NANOSECONDS, Escalate, Restart, Stop, next_action, recent

MOMENT = 1_700_000_000 * NANOSECONDS


@pytest.mark.parametrize(("state", "incident"), list(itertools.product(State, Incident)))
def test_a_move_is_in_the_table_or_raises(state: State, incident: Incident) -> None:
    if incident in TRANSITIONS[state]:
        assert step(state, incident) is TRANSITIONS[state][incident]
    else:
        with pytest.raises(IllegalMove, match=f"{state.value} cannot take {incident.name}") as caught:
            step(state, incident)
        assert (caught.value.state, caught.value.incident) == (state, incident)


def test_every_state_has_a_row_and_the_ended_ones_have_no_way_out() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {state for state in State if not TRANSITIONS[state]} == {State.STOPPED, State.FAILED}
    assert {state for state in State if not state.alive} == {State.STOPPED, State.FAILED}


@given(st.lists(st.sampled_from(Incident)))
def test_stopping_is_never_left_for_a_state_that_takes_messages(incidents: list[Incident]) -> None:
    state, stopping = State.STARTING, False
    for incident in incidents:
        if incident in TRANSITIONS[state]:
            state = step(state, incident)
        stopping = stopping or state is State.STOPPING
        assert not stopping or state in {State.STOPPING, State.STOPPED, State.FAILED}


@given(st.sampled_from(State))
def test_every_living_state_can_be_cancelled_and_every_state_is_reachable(state: State) -> None:
    assert not state.alive or step(state, Incident.CANCELLED) is State.STOPPED
    reached, frontier = {State.STARTING}, [State.STARTING]
    while frontier:
        for following in TRANSITIONS[frontier.pop()].values():
            if following not in reached:
                reached.add(following)
                frontier.append(following)
    assert state in reached


@pytest.mark.parametrize(("on_failure", "action"), [("stop", Stop()), ("escalate", Escalate())])
def test_stop_and_escalate_ask_nothing_further(on_failure: str, action: object) -> None:
    policy = Supervision(on_failure=on_failure)  # type: ignore[arg-type]
    assert next_action(policy, [MOMENT], MOMENT) == action


def test_delays_double_up_to_the_longest() -> None:
    policy = Supervision(max_restarts=6, first_delay=0.5, max_delay=5)
    failures = [MOMENT + n for n in range(6)]
    delays = [next_action(policy, failures[: n + 1], failures[n]) for n in range(6)]
    assert delays == [Restart(0.5), Restart(1.0), Restart(2.0), Restart(4.0), Restart(5), Restart(5)]


@pytest.mark.parametrize(("when_exhausted", "action"), [("stop", Stop()), ("escalate", Escalate())])
def test_one_failure_more_than_allowed_gives_up(when_exhausted: str, action: object) -> None:
    policy = Supervision(max_restarts=2, when_exhausted=when_exhausted)  # type: ignore[arg-type]
    assert isinstance(next_action(policy, [MOMENT] * 2, MOMENT), Restart)
    assert next_action(policy, [MOMENT] * 3, MOMENT) == action


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=30).map(sorted),
    st.integers(0, 5),
    st.integers(1, 100),
)
def test_no_period_ever_holds_more_restarts_than_allowed(seconds: list[int], allowed: int, period: int) -> None:
    policy = Supervision(max_restarts=allowed, period=period)
    failures: tuple[int, ...] = ()
    restarts: list[int] = []
    for second in seconds:
        now = MOMENT + second * NANOSECONDS
        failures = (*recent(policy, failures, now), now)
        if not isinstance(next_action(policy, failures, now), Restart):
            break
        restarts.append(now)
    for first in restarts:
        assert sum(first <= moment < first + period * NANOSECONDS for moment in restarts) <= allowed


def test_failures_older_than_the_period_are_forgotten_and_later_ones_than_now_count() -> None:
    policy = Supervision(period=10)
    old, edge, late = MOMENT - 11 * NANOSECONDS, MOMENT - 10 * NANOSECONDS, MOMENT + NANOSECONDS
    assert recent(policy, [old, edge, MOMENT, late], MOMENT) == (MOMENT, late)


@given(st.integers(1, 5000))
def test_a_long_row_of_failures_does_not_overflow(count: int) -> None:
    policy = Supervision(max_restarts=10_000, max_delay=7.0)
    action = next_action(policy, [MOMENT] * count, MOMENT)
    assert isinstance(action, Restart)
    assert 0 < action.delay <= 7.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"on_failure": "resume"},
        {"max_restarts": -1},
        {"period": 0},
        {"first_delay": -0.1},
        {"max_delay": -1},
        {"when_exhausted": "restart"},
    ],
)
def test_a_policy_out_of_range_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Supervision(**wrong)  # type: ignore[arg-type]
