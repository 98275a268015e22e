"""Any moment of any recorded run, as the last that an older copy knows: nothing that was started is started again."""

from __future__ import annotations

from pathlib import Path

from trouper import REGISTRY
from trouper.core.decide import decide
from trouper.core.effects import Effect
from trouper.core.events import ActionQueried, ActionStarted
from trouper.core.evolve import evolve
from trouper.core.restoring import unknown_since
from trouper.core.state import Phase, RunState
from trouper.core.steps import Close, QueryAction, StartAction, Step
from trouper_journal import Journal


def under_way(state: RunState) -> set[str]:
    """Writes that have begun and of which the copy does not know the end, by what is written down of them."""
    return {
        action.action
        for action in state.batch
        if action.attempt > 0
        and action.effect is not Effect.READ_ONLY
        and action.child is None
        and action.phase in {Phase.STARTED, Phase.INTERRUPTED, Phase.REPEAT}
    }


def begins_or_ends(steps: tuple[Step, ...], actions: set[str]) -> list[Step]:
    """Steps that make one of these calls again, or say how it ended."""
    return [step for step in steps if isinstance(step, StartAction | Close) and step.action in actions]


async def test_no_write_that_was_under_way_begins_again_by_itself(golden: Path) -> None:
    marked, asked = 0, 0
    async with Journal.open(golden, registry=REGISTRY) as journal:
        async for head in journal.streams(prefix="run/"):
            state, started = RunState(head.stream.removeprefix("run/")), dict[str, int]()
            async for record in journal.read(head.stream):
                event = journal.registry.decode(record)
                if isinstance(event, ActionStarted):
                    started[event.action] = record.position
                state = evolve(state, event)
                expected = set() if state.ended else under_way(state)
                events = unknown_since(state, started, record.position + 1)
                assert {event.action for event in events} == expected
                after = state
                for each in events:
                    after = evolve(after, each)
                assert unknown_since(after, started, record.position + 1) == ()
                steps = decide(after)
                assert begins_or_ends(steps, expected) == []
                for step in steps:
                    if isinstance(step, QueryAction) and step.action in expected:
                        absent = evolve(after, ActionQueried(step.action, step.attempt, "absent"))
                        assert begins_or_ends(decide(absent), expected) == []
                        asked += 1
                marked += len(events)
                # What the copy has seen end, and what was started after it was accepted, stays as it is.
                assert unknown_since(state, started, 0) == ()
    assert marked
    assert asked
