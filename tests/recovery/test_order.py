"""Calls that end in one order, are killed, and end in another: what is made of them is the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import trio
from tests.agents.office import asks
from tests.recovery.crash import check_intents, of, play_all, said
from tests.recovery.lives import Played, Sight
from tests.recovery.scenario import Job
from tests.recovery.test_matrix import every_kill

from trouper.testing import StrictStub, strict_stub

BATCH = asks(("a", {}), ("b", {}), ("c", {}))


def bodies(stub: StrictStub, job: Job) -> list[bytes]:
    """What a job's model was sent, byte for byte."""
    return [request.raw for request in stub.requests if request.headers["authorization"] == f"Bearer {job.name}"]


def receipts(played: Played) -> list[object]:
    return [entry["action"] for entry in of(played.lives[-1], "ActionReceipted")]


def outcome(played: Played) -> Sight:
    """What stands at the end, without the way to it."""
    return attrs.evolve(played.end, events=[], effects=[], requests=[])


async def test_case_14_the_order_in_which_calls_end_changes_nothing_that_follows(tmp_path: Path) -> None:
    async with strict_stub([BATCH, "done"], by_turn=True) as stub:
        plain = Job("plain", play="three_at_once", url=stub.url, seed=14)
        (dry,) = await trio.to_thread.run_sync(play_all, [plain], tmp_path / "dry")
        assert dry.end.label == "succeeded", said(dry)
        assert receipts(dry) == ["0.1", "0.2", "0.0"]
        first, second = bodies(stub, plain)

        kills = every_kill(dry)
        jobs = [attrs.evolve(plain, name=f"{kill.point}-{kill.nth}", kills=(kill,)) for kill in kills]
        orders: Counter[str] = Counter()
        for played in await trio.to_thread.run_sync(play_all, jobs, tmp_path):
            assert played.lives[0].signal, said(played)
            assert played.end.label == "succeeded", said(played)
            # The same state, and the same requests, of which only one without a reply may be repeated.
            assert outcome(played) == outcome(dry)
            assert set(bodies(stub, played.job)) == {first, second}
            lost = len(of(played.lives[-1], "ModelLost"))
            assert 2 <= len(bodies(stub, played.job)) <= 2 + lost
            assert played.end.answers == ["a done", "b done", "c done"]
            assert Counter(line["name"] for line in played.lives[-1].after.effects) == {"a": 1, "b": 1, "c": 1}
            for life in played.lives:
                check_intents(life)
            orders["".join(str(action)[-1] for action in receipts(played))] += 1
        # Otherwise nothing was shown.
        assert len(orders) > 2, orders
        print(f"order: {len(jobs)} kills; orders of receipts: {dict(orders)}")
        stub.assert_clean()
