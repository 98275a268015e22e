"""Ids that providers give to calls are neither unique nor there: nothing may hang on them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.agents.office import of, office
from tests.recovery.crash import of as events_of
from tests.recovery.crash import play_all
from tests.recovery.fate import Kill
from tests.recovery.scenario import Job

from trouper import ToolMessage
from trouper.core.conversation import Value
from trouper.core.events import ActionReceipted, ModelResponded
from trouper.testing import Reply, tc


def without_id(arguments: str) -> dict[str, Value]:
    made = tc(None, "add", arguments)
    del made["id"]
    return made


EMPTY = [tc("", "add", '{"n":1}'), tc("", "add", '{"n":2}')]
NULL = [tc(None, "add", '{"n":1}'), tc(None, "add", '{"n":2}')]
ABSENT = [without_id('{"n":1}'), without_id('{"n":2}')]
TWICE = [tc("x", "add", '{"n":1}'), tc("x", "add", '{"n":2}')]


@pytest.mark.parametrize(
    ("calls", "kept"),
    [(TWICE, ["x", "x"]), (EMPTY, ["", ""]), (NULL, [None, None]), (ABSENT, [None, None])],
    ids=["twice", "empty", "null", "absent"],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_case_01_ids_that_are_not_unique_in_one_reply(
    calls: list[dict[str, Value]], kept: list[str | None], tmp_path: Path, *, stream: bool
) -> None:
    script = [Reply(calls=calls), Reply("done")]
    async with office(tmp_path, script, lambda world: [world.adder()], stream=stream) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        result = await run.wait()
        assert Counter(desk.world.effects) == {"add 1": 1, "add 2": 1}
        answers = [message for message in result.messages if isinstance(message, ToolMessage)]
        assert [(answer.call_id, answer.content) for answer in answers] == [
            (f"{run.id}/0.0", "added 1"),
            (f"{run.id}/0.1", "added 2"),
        ]
        (reply, _) = await of(run, ModelResponded)
        assert isinstance(reply.calls, tuple)
        # A stream that gives no id and an empty one cannot be told apart from each other.
        assert [call.provider_id or None for call in reply.calls] == [each or None for each in kept]


async def test_case_01_an_id_of_an_earlier_turn(tmp_path: Path) -> None:
    script = [*(Reply(calls=[tc("functions.add:0", "add", f'{{"n":{n}}}')]) for n in (1, 2)), Reply("done")]
    async with office(tmp_path, script, lambda world: [world.adder()]) as desk, desk.open() as runtime:
        run = await runtime.submit("desk", "go")
        await run.wait()
        assert desk.world.effects == ["add 1", "add 2"]
        receipts = await of(run, ActionReceipted)
        assert [(receipt.action, receipt.text) for receipt in receipts] == [("0.0", "added 1"), ("1.0", "added 2")]


@pytest.mark.parametrize("play", ["id_of_earlier_turn", "id_twice_in_one_reply", "empty_ids", "no_ids"])
def test_case_01_a_call_is_never_taken_as_done_because_its_id_was_seen_before(play: str, tmp_path: Path) -> None:
    """Killed in the second call before its effect, when the first has had its own."""
    (played,) = play_all([Job(play, play=play, kills=(Kill("entered", 2),))], tmp_path)
    killed, in_doubt, still_in_doubt, *_, last = played.lives
    assert killed.signal
    (first,) = killed.after.effects
    (second,) = {1, 2} - {int(str(first["n"]))}
    action = f"{second - 1}.0" if play == "id_of_earlier_turn" else f"0.{second - 1}"
    assert in_doubt.said == still_in_doubt.said == "in_doubt"
    assert events_of(in_doubt, "ActionUnresolved", action=action)
    assert not events_of(in_doubt, "ActionReceipted", action=action)
    assert last.said == "succeeded"
    assert sorted(int(str(line["n"])) for line in last.after.effects) == [1, 2]
    assert last.after.answers[second - 1] == f"added {second}"
    assert len(events_of(last, "ActionReceipted")) == len(last.after.answers) == 2
    # The ids on the wire were valid, and those of a repeated request the same.
    assert all(entry["violations"] == [] for entry in last.after.requests)
    assert len({entry["body"] for entry in last.after.requests}) == len(
        {entry["index"] for entry in last.after.requests}
    )
