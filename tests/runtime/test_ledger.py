"""The ledger of a tree: grants, what becomes of them, and refusals; without runs, journal or models."""

from __future__ import annotations

import attrs

from trouper import Limits, RunState, Spent
from trouper.core.budget import Budget, Refusal, Reserve
from trouper.core.state import ModelCall
from trouper.runtime.ledger import Asked, Ledger, Ledgers

CALLS = Limits(max_model_calls=3)


def a_run(run: str, calls: int = 0, limits: Limits | None = None, version: int = 5) -> RunState:
    return RunState(run, version=version, rules=1, limits=limits or Limits(), index=calls)


class House:
    """A tree whose states a test sets."""

    def __init__(self, *states: RunState) -> None:
        self.states = {state.run: state for state in states}
        self.rung: list[str] = []
        self.loads: list[str] = []

    async def load(self, run: str) -> RunState:
        self.loads.append(run)
        return self.states[run]

    async def below(self, root: str) -> list[str]:
        return [run for run in self.states if run.startswith(f"{root}~")]

    async def ledger(self, run: str) -> Ledger:
        made = Ledger("R", self.load, self.below, self.rung.append)
        assert await made.prepare(self.states[run])
        return made


def calls(run: str, number: int) -> Asked:
    return Asked(run, Spent(model_calls=number), "model")


async def test_what_is_granted_counts_at_once_and_the_last_is_given_once() -> None:
    house = House(a_run("R", 1, CALLS), a_run("R~0.0"), a_run("R~0.1"))
    ledger = await house.ledger("R~0.0")
    assert ledger.ask(calls("R~0.0", 1), 0) is None
    assert ledger.ask(calls("R~0.1", 1), 0) is None
    refusal = ledger.ask(calls("R~0.0", 2), 0)
    assert refusal == Refusal("model_calls", "R", 3, 3)
    # Asked again for the same, as after a conflict, it is not another one.
    assert ledger.ask(calls("R~0.1", 1), 0) is None


async def test_a_grant_that_never_became_durable_is_given_back_and_one_that_did_is_not() -> None:
    house = House(a_run("R", 2, CALLS), a_run("R~0.0"), a_run("R~0.1"))
    ledger = await house.ledger("R~0.0")
    assert ledger.ask(calls("R~0.0", 1), 0) is None
    assert isinstance(ledger.ask(calls("R~0.1", 1), 0), Refusal)
    ledger.give_back("R~0.0")
    assert ledger.ask(calls("R~0.1", 1), 0) is None
    ledger.note(a_run("R~0.1", 1, version=6))
    ledger.give_back("R~0.1")
    assert isinstance(ledger.ask(calls("R~0.0", 1), 0), Refusal)


async def test_a_grant_of_a_run_that_left_in_the_middle_is_kept_until_it_is_read_anew() -> None:
    house = House(a_run("R", 2, CALLS), a_run("R~0.0"), a_run("R~0.1"))
    ledger = await house.ledger("R~0.0")
    assert ledger.ask(calls("R~0.0", 1), 0) is None
    ledger.leave("R~0.0")
    assert isinstance(ledger.ask(calls("R~0.1", 1), 0), Refusal)
    ledger.note(a_run("R~0.0", 0, version=6))
    assert ledger.ask(calls("R~0.1", 1), 0) is None


async def test_what_is_read_late_does_not_overwrite_what_was_committed_meanwhile() -> None:
    house = House(a_run("R", 1, CALLS), a_run("R~0.0"))
    ledger = await house.ledger("R~0.0")
    ledger.note(a_run("R~0.0", 2, version=9))
    ledger.note(a_run("R~0.0", 0, version=7))
    assert isinstance(ledger.ask(calls("R~0.0", 3), 0), Refusal)


async def test_a_raised_limit_is_seen_when_its_run_is_read_anew() -> None:
    house = House(a_run("R", 3, CALLS), a_run("R~0.0"))
    ledger = await house.ledger("R~0.0")
    refusal = ledger.ask(calls("R~0.0", 1), 0)
    assert isinstance(refusal, Refusal)
    house.states["R"] = a_run("R", 3, Limits(max_model_calls=4), version=6)
    assert not ledger.has_more(refusal)
    await ledger.refresh("R")
    assert ledger.has_more(refusal)
    assert ledger.ask(calls("R~0.0", 1), 0) is None


async def test_reserves_of_others_are_waited_for_and_the_waiting_one_is_rung() -> None:
    out = ModelCall(0, 1, "requested", closing=False)
    busy = attrs.evolve(a_run("R~0.1"), model=out, budget=Budget(reserve=Reserve(50, 900)))
    house = House(a_run("R", 0, Limits(max_tokens=1000)), a_run("R~0.0"), busy)
    ledger = await house.ledger("R~0.0")
    wish = Asked("R~0.0", Spent(assumed_tokens=200), "model")
    assert ledger.ask(wish, 0) == "later"
    # Its own commits do not ring it; the other's does.
    ledger.note(house.states["R~0.0"])
    assert house.rung == []
    ledger.note(a_run("R~0.1", 1, version=6))
    assert house.rung == ["R~0.0"]
    assert ledger.ask(wish, 0) is None
    assert isinstance(ledger.ask(Asked("R~0.0", Spent(assumed_tokens=1001), "model"), 0), Refusal)


async def test_the_time_of_a_run_above_is_up_for_all_below_it() -> None:
    top = attrs.evolve(a_run("R", 0, Limits(max_seconds=1)), budget=Budget(deadline=1_500_000_000))
    ledger = await House(top, a_run("R~0.0")).ledger("R~0.0")
    assert ledger.ask(calls("R~0.0", 1), 1_499_999_999) is None
    refusal = ledger.ask(calls("R~0.0", 1), 1_500_000_000)
    assert refusal == Refusal("seconds", "R", 1_000_000_000, 1_000_000_000)


async def test_a_tree_without_limits_to_share_reads_no_more_than_the_way_to_its_root() -> None:
    house = House(a_run("R"), a_run("R~0.0"), a_run("R~0.1"), a_run("R~0.0~0.0"))
    ledgers = Ledgers(house.load, house.below, house.rung.append)
    assert await ledgers.of(house.states["R~0.0~0.0"]) is None
    assert house.loads == ["R~0.0", "R"]
    assert ledgers.known("R~0.1") is not None
    ledgers.left("R~0.0~0.0")
    assert ledgers.known("R") is None
