"""Two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.tampering import OF_STREAM, forged
from tests.cli.program import called, complaint, objects, ok_called, one_object
from tests.golden.found import run_of

from trouper import REGISTRY, Agent, EditArguments, Human, Runtime, WhatIf, tool
from trouper.audit import Comparison, compare
from trouper.audit.aligning import aligned, common_prefix
from trouper.core.conversation import text
from trouper.errors import ForkError
from trouper.narration.text import who
from trouper.testing import ScriptedModel, call
from trouper_journal import Journal

RUNS = Path("runs-1.db")


def asked(what: str) -> str:
    """The golden run with that input."""
    return run_of(RUNS, what)


async def compared(path: Path, *runs: str) -> Comparison:
    """Two runs side by side."""
    async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
        return await compare(journal, *runs)


# ---- aligning

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


@given(left=WORDS, right=WORDS)
def test_rows_hold_both_sides_whole_and_in_order(left: list[str], right: list[str]) -> None:
    rows = aligned(left, right, str.encode)
    assert [row.left for row in rows if row.left is not None] == left
    assert [row.right for row in rows if row.right is not None] == right
    for row in rows:
        assert (row.left == row.right) == (row.kind == "same")
    assert (left == right) == all(row.kind == "same" for row in rows)
    common = common_prefix(left, right)
    assert left[:common] == right[:common]
    assert left[common : common + 1] != right[common : common + 1] or common == len(left) == len(right)


@given(words=WORDS)
def test_what_belongs_together_may_still_differ(words: list[str]) -> None:
    ours, theirs = [f"{word}1" for word in words], [f"{word}2" for word in words]
    rows = aligned(ours, theirs, lambda word: word[:1].encode(), str.encode)
    assert [row.kind for row in rows] == ["changed"] * len(words)


def test_very_long_sequences_are_paired_by_their_places() -> None:
    ours, theirs = [str(number) for number in range(5_000)], [str(-number) for number in range(1, 5_002)]
    rows = aligned([*ours, "end"], [*theirs, "end"], str.encode)
    assert [row.kind for row in rows] == ["changed"] * 5_000 + ["right", "same"]


# ---- runs


async def test_a_fork_is_put_beside_the_run_that_it_was_forked_from(golden_runs: Path) -> None:
    found = await compared(golden_runs, asked(""))
    assert found.left.run == asked("pay what is due")
    assert found.fork is not None
    assert (found.common, found.same) == (2, False)
    assert found.first is not None
    assert found.first.left is not None
    assert found.first.right is not None
    assert (text(found.first.left.message.content), text(found.first.right.message.content)) == (
        "a note on balance",
        "5",
    )
    assert [row.kind for row in found.messages] == ["changed", "same", "same", "same"]
    # What they have in common is not told again as calls: the search was made once, by the one.
    assert [(row.left.tool, row.right.gate) for row in found.calls if row.left and row.right] == [("pay", "recorded")]
    assert {pair.name: (pair.left, pair.right) for pair in found.spend}["calls of pay"] == (1, 0)
    assert found.start == ()


async def test_definitions_calls_and_ends_that_differ_are_told(golden_runs: Path) -> None:
    found = await compared(golden_runs, asked("drift"), asked("changed"))
    assert found.definition == ("contract.tools.wipe.version changed",)
    assert [pair.name for pair in found.start] == ["definition"]
    assert (found.common, [row.kind for row in found.messages]) == (0, ["changed", "same", "same", "changed"])
    votes = await compared(golden_runs, asked("refund 300"), asked("refund 400"))
    (row,) = votes.calls
    assert row.left is not None
    assert row.right is not None
    # A vote that lapsed with its request is none.
    assert [who(by) for call in (row.left, row.right) for by in call.approved_by] == ["otto", "ida", "eva"]
    hooked = await compared(golden_runs, asked("polite"), asked("ping"))
    assert {row.kind for row in hooked.hooks} == {"left"}


async def test_a_run_is_the_same_as_itself(golden_runs: Path) -> None:
    found = await compared(golden_runs, asked("delegate"), asked("delegate"))
    assert found.same
    assert (found.common, found.messages, found.first) == (5, (), None)


async def test_one_run_alone_must_be_a_fork(golden_runs: Path) -> None:
    with pytest.raises(ForkError, match="is no fork: name the run to compare it with"):
        await compared(golden_runs, asked("drift"))


async def test_erased_content_is_not_called_a_difference(golden_runs: Path) -> None:
    run = asked("drift")
    before = await compared(golden_runs, run, asked("changed"))
    assert forged(golden_runs, f"UPDATE events SET key_id = 'k' WHERE content <> '' AND {OF_STREAM}", f"run/{run}")
    assert (await compared(golden_runs, run, run)).same
    found = await compared(golden_runs, run, asked("changed"))
    assert (before.left.erased, found.left.erased, found.right.erased) == (False, True, False)


@tool(effect="idempotent_write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def forked(path: Path) -> tuple[str, str]:
    """A run, and its fork that pays another amount."""
    model = ScriptedModel([call("pay", amount=1), "Paid.", "Paid something else."])
    async with Runtime.open(path, agents=[Agent("payer", tools=[pay], model=model)]) as runtime:
        run = await runtime.submit("payer", [Human("", "Pay.")])
        await run.wait()
        fork = await run.fork(WhatIf([EditArguments("0.0", {"amount": 2})], writes="simulate"))
        await fork.wait()
        return run.id, fork.id


def test_a_fork_that_makes_calls_anew_is_explained_by_the_reply_that_it_took_over(tmp_path: Path) -> None:
    run, fork = trio.run(forked, tmp_path / "j.db")
    found = trio.run(compared, tmp_path / "j.db", fork)
    assert (found.common, found.left.run, found.right.run) == (1, run, fork)
    assert [(row.kind, row.left and row.left.arguments, row.right and row.right.arguments) for row in found.calls] == [
        ("changed", {"amount": 1}, {"amount": 2})
    ]
    shown = ok_called("why", tmp_path / "j.db", f"{fork}/0.0")
    assert f"asked for by reply 0, taken over from run {run}" in shown
    assert 'as the model wrote it: pay({"amount": 2})' in shown
    told = one_object(ok_called("why", tmp_path / "j.db", f"{fork}/0.0", "--json"))["model_call"]
    assert isinstance(told, dict)
    assert (told["taken_over_from"], told["requests"], told["reply"]) == (run, [], None)


# ---- the command


def lines(*arguments: str | Path) -> Sequence[str]:
    """What ``trouper diff`` prints in a pipe, having found differences."""
    done = called("diff", *arguments)
    assert done.returncode == 1, done.stderr
    return done.stdout.splitlines()


def test_people_see_the_lines_of_a_diff(golden_runs: Path) -> None:
    shown = lines(golden_runs, asked(""))
    assert shown[0].startswith(f"- {asked('pay what is due')}  succeeded  agent payer, asked by maria")
    assert "as it stood after its event 15; new writes are refused" in shown[2]
    begin = shown.index("2 messages in common, from the first. Then:")
    assert shown[begin + 1 : begin + 5] == [
        '- tool search: "a note on balance"',
        '+ tool search: "5"',
        '  ai: wants pay({"amount": 100})',
        '  tool pay: "paid 100"',
    ]
    assert shown[-4:] == ["- calls of pay: 1", "+ calls of pay: 0", "- calls of search: 1", "+ calls of search: 0"]
    assert "Nothing differs." in ok_called("diff", golden_runs, asked("late"), asked("late"))


def test_programs_see_both_sides(golden_runs: Path) -> None:
    done = called("diff", golden_runs, asked("drift"), asked("changed"), "--json")
    assert done.returncode == 1
    found = one_object(done.stdout)
    assert (found["same"], found["common_messages"]) == (False, 0)
    assert isinstance(rows := found["messages"], list)
    assert [row["kind"] for row in rows] == ["changed", "same", "same", "changed"]
    assert rows[0]["left"]["message"]["content"] == "drift"
    assert len(objects(ok_called("diff", golden_runs, asked("late"), asked("late"), "--json"))) == 1


def test_every_two_runs_can_be_compared(golden_runs: Path) -> None:
    names = ["delegate", "polite", "pay for it", "cut off", "misfit", "still here", "next left", "doubt left"]
    for one, other in pairwise(names):
        assert lines(golden_runs, asked(one), asked(other), "--full")


def test_what_cannot_be_compared_is_one_line(golden_runs: Path) -> None:
    done = called("diff", golden_runs, asked("drift"))
    assert (done.returncode, "is no fork" in complaint(done)) == (2, True)
    assert called("diff", golden_runs, asked("drift"), "nobody").returncode == 3


async def test_runs_that_cannot_be_read_to_their_ends_are_not_called_the_same(golden_runs: Path) -> None:
    run = asked("delegate")
    newer = f"UPDATE events SET schema = 9 WHERE type = 'action.started' AND {OF_STREAM}"
    assert forged(golden_runs, newer, f"run/{run}")
    found = await compared(golden_runs, run, run)
    assert found.left.unread is not None
    assert not found.same
