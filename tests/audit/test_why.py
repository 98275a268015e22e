"""Why something happened: the causal chain of calls, answers and spending, from the journal alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from tests.audit.tampering import OF_STREAM, tampered
from tests.golden.found import described, run_of

from trouper import REGISTRY, UnknownAction, UnknownRun
from trouper.audit import CallWhy, Explainer, SpendWhy, sound
from trouper.audit.trace import Entry, read_trace
from trouper.core import events as ev
from trouper.core.conversation import Human, text
from trouper.core.family import Parent
from trouper.hooks import Drop, Insert, Replace
from trouper.narration.text import who
from trouper_journal import ERASED, Journal

RUNS = Path("runs-1.db")


def asked(what: str) -> str:
    """The golden run with that input."""
    return run_of(RUNS, what)


@asynccontextmanager
async def explainer(path: Path, levels: int = 16) -> AsyncIterator[Explainer]:
    """An explainer of a journal."""
    async with Journal.open(path, registry=REGISTRY) as journal:
        yield Explainer(journal, levels)


def names(entries: tuple[Entry, ...]) -> list[str]:
    """The classes of the events."""
    return [type(entry.event).__name__ for entry in entries]


async def test_a_call_is_explained_by_who_approved_it_and_what_the_model_saw(golden_runs: Path) -> None:
    run = asked("refund 300")
    async with explainer(golden_runs) as explain:
        why = await explain.call(f"{run}/0.0")
    votes = [entry.event for entry in why.facts if isinstance(entry.event, ev.ApprovalDecided)]
    assert [(vote.by.id, vote.reason) for vote in votes if isinstance(vote.by, ev.Principal)] == [
        ("otto", "order checked"),
        ("ida", None),
    ]
    assert names(why.facts)[-2:] == ["ActionStarted", "ActionReceipted"]
    assert why.call.policy == "agent.approvals[2] People"
    assert why.binding == "matches"
    assert isinstance(why.asked, ev.AskedCall)
    assert (why.asked.name, why.asked.arguments) == ("refund", '{"order": "R-3", "amount": 300}')
    (request,) = why.model.requests
    assert [text(seen.message.content) for seen in request.messages if seen.message] == ["refund 300"]
    assert request.check is not None
    assert (request.check.digest, request.check.recorded) == ("matches", request.check.recomputed)
    submitted = why.origin.submitted
    assert submitted is not None
    assert submitted.record.key == "submit:refund 300"
    assert text(why.told.content) == "refunded 300 for R-3" if why.told else False


async def test_decisions_that_went_past_the_rules_are_shown_as_void(golden_runs: Path) -> None:
    run = asked("refund 500")
    async with Journal.open(golden_runs, registry=REGISTRY) as journal:
        (asking,) = [each for each in (await Explainer(journal).call(f"{run}/0.0")).facts if _asks(each)]
        assert isinstance(asking.event, ev.ApprovalRequested)
        digest = asking.event.digest
        rogue = [
            # Whoever asked for the run may not approve; this one is nobody who may; the last is on another call.
            ev.ApprovalDecided("0.0", 1, "approve", digest, ev.Principal("maria"), voter=b"m"),
            ev.ApprovalDecided("0.0", 1, "approve", digest, ev.Principal("mallory"), voter=b"x"),
            ev.ApprovalDecided("0.0", 1, "deny", b"other", ev.Principal("ida"), voter=b"i"),
            ev.ActionResolved("0.0", "applied", ev.Principal("mallory")),
        ]
        written = await journal.append(f"run/{run}", rogue)
        why = await Explainer(journal).call(f"{run}/0.0")
    assert why.call.void == tuple(record.position for record in written.records)
    assert [who(by) for by in why.call.approved_by] == ["otto"]
    assert (why.call.outcome, why.call.verdict, why.binding) == ("open", None, "matches")


def _asks(entry: Entry) -> bool:
    return isinstance(entry.event, ev.ApprovalRequested)


async def test_all_that_happened_to_a_doubtful_call_is_told_in_order(golden_runs: Path) -> None:
    async with explainer(golden_runs) as explain:
        late = await explain.call(f"{asked('late')}/0.0")
        again = await explain.call(f"{asked('transient')}/0.0")
        failed = (await explain.model_call(asked("retry"), 0)).facts
    assert names(late.facts)[-4:] == ["ActionUnresolved", "ActionResolved", "ActionReceipted", "ActionReturnedLate"]
    assert late.call.settled_by == ev.Principal("maria")
    assert (late.call.verdict, late.call.attempts) == ("applied", 1)
    # Failed attempts are part of the story, of calls and of requests.
    assert names(again.facts).count("ActionStarted") == 2
    assert "ActionInterrupted" in names(again.facts)
    assert names(failed) == ["ModelRequested", "ModelFailed", "ModelRequested", "ModelResponded"]


async def test_hooks_are_named_for_what_they_inserted_replaced_and_dropped(golden_runs: Path) -> None:
    run = asked("polite")
    async with explainer(golden_runs) as explain:
        first = await explain.call(f"{run}/0.0")
        last = await explain.answer(run)
    inserted = first.model.requests[0].messages[-1]
    assert (inserted.origin, inserted.hook.hook if inserted.hook else "") == ("hook", "House")
    assert isinstance(inserted.message, Human)
    assert inserted.message.content == "Be polite."
    # A hook changed the arguments, and put words behind the result.
    assert names(first.facts)[0] == names(first.facts)[-1] == "HookApplied"
    assert isinstance(first.asked, ev.AskedCall)
    assert (first.asked.arguments, first.call.arguments) == ('{"text": "a"}', {"text": "a, please"})
    shown = [seen.message.content for request in last.model.requests for seen in request.messages if seen.message]
    assert "Be polite." not in shown


async def test_standing_rules_lead_to_whoever_made_them_and_to_their_end(golden_runs: Path) -> None:
    async with explainer(golden_runs) as explain:
        why = await explain.call(f"{asked('send again')}/0.0")
    (rule,) = why.rules
    assert rule.added is not None
    assert rule.revoked is not None
    assert isinstance(rule.added.event, ev.RuleAdded)
    assert (rule.added.event.by, rule.added.event.action) == (ev.Principal("otto"), f"{asked('send once')}/0.0")


async def test_sub_agents_are_followed_down_and_callers_up(golden_runs: Path) -> None:
    run = asked("delegate")
    async with explainer(golden_runs) as explain:
        down = await explain.call(f"{run}/0.0")
        up = await explain.call(f"{run}~0.0/0.0")
        shallow = await Explainer(explain.journal, 0).answer(run)
    assert down.child is not None
    assert (down.child.run, down.child.output) == (f"{run}~0.0", "It rains on Mondays.")
    assert [call.tool for call in down.child.calls] == ["search"]
    caller = up.origin.caller
    assert isinstance(caller, CallWhy)
    assert (caller.id, caller.child) == (f"{run}/0.0", None)
    assert caller.origin.submitted is not None
    assert caller.origin.submitted.record.key == "submit:delegate"
    assert shallow.children == ()


async def test_turns_lead_to_their_session_and_forks_to_what_they_were_forked_from(golden_runs: Path) -> None:
    async with explainer(golden_runs) as explain:
        turn = await explain.answer(asked("still here"))
        fork = await explain.call(f"{asked('')}/0.0")
    assert names(turn.origin.session) == ["SessionOpened", "TurnQueued"]
    (request,) = turn.model.requests
    # What was said in earlier turns is shown with the run that it was said in.
    assert asked("hello again") in {seen.run for seen in request.messages}
    assert (fork.origin.fork_of, fork.model.taken_over) == (asked("pay what is due"), "")
    assert (fork.call.gate, fork.call.evidence) == ("recorded", "recorded")


async def test_a_summary_leads_to_what_was_summarised(golden_runs: Path) -> None:
    async with explainer(golden_runs) as explain:
        why = await explain.answer(asked("what was said"))
    (summary,) = why.origin.summaries
    assert (summary.digest, len(summary.dropped), summary.unread) == ("matches", 4, None)
    assert all(text(message.content) in text(summary.messages[-1].content) for message in summary.dropped)
    seen = why.model.requests[-1].messages[0]
    assert (seen.origin, seen.run) == ("summary", asked("what was said"))
    change = f"UPDATE events SET content = reworded(content, ?, ?) WHERE {OF_STREAM}"
    tampered(golden_runs, change, b"hello", b"hullo", f"run/{asked('hello')}")
    async with explainer(golden_runs) as explain:
        changed = await explain.answer(asked("what was said"))
    assert (changed.origin.summaries[0].digest, sound(changed)) == ("differs", False)


async def test_what_was_spent_adds_up_in_every_run(golden_runs: Path) -> None:
    async with explainer(golden_runs) as explain:
        for run in described("runs-1")["runs"]:
            why = await explain.spend(run)
            assert sum(cost.input_tokens or 0 for cost in why.costs) == why.own.input_tokens
            assert sum(cost.output_tokens or 0 for cost in why.costs) == why.own.output_tokens
            assert sum(cost.cost or 0 for cost in why.costs) == why.own.cost
            assert sum(cost.assumed_tokens for cost in why.costs) == why.own.assumed_tokens
            assert len(why.calls) == why.own.tool_calls
            assert tree(why) >= why.spent.input_tokens


def tree(why: SpendWhy) -> int:
    """Tokens of requests of a run and all below it."""
    return why.own.input_tokens + sum(tree(child) for child in why.children)


async def test_every_call_and_every_answer_of_a_whole_journal_is_sound(golden_runs: Path) -> None:
    calls = 0
    async with explainer(golden_runs) as explain:
        for run in described("runs-1")["runs"]:
            answer = await explain.answer(run)
            assert sound(answer), run
            for call in answer.calls:
                assert sound(await explain.call(f"{run}/{call.action}"))
                calls += 1
    assert calls > 50


# ---- what is not what was recorded


@pytest.mark.parametrize(
    ("what", "kind", "old", "new"),
    [
        ("what was asked", "run.submitted", b"refund 300", b"refund 301"),
        ("what the model answered", "model.responded", b"R-3", b"R-4"),
        ("the arguments", "action.planned", b"R-3", b"R-4"),
    ],
)
async def test_changed_contents_are_found_by_digests_computed_anew(
    golden_runs: Path, what: str, kind: str, old: bytes, new: bytes
) -> None:
    run = asked("refund 300")
    change = f"""UPDATE events SET content = reworded(content, ?, ?)
        WHERE type = ? AND instr(content, ?) AND {OF_STREAM}"""
    assert tampered(golden_runs, change, old, new, kind, old, f"run/{run}") == 1, what
    async with explainer(golden_runs) as explain:
        call, answer = await explain.call(f"{run}/0.0"), await explain.answer(run)
    assert not (sound(call) and sound(answer))
    assert (call.binding == "differs") == (kind == "action.planned")


async def test_another_definition_document_than_the_pinned_one_is_found(golden_runs: Path) -> None:
    run = asked("drift")
    change = "UPDATE events SET content = reworded(content, ?, ?) WHERE type = 'definition.recorded'"
    tampered(golden_runs, change, b"Do it well.", b"Do it ill!!")
    async with explainer(golden_runs) as explain:
        why = await explain.answer(run)
    (check,) = [request.check for request in why.model.requests]
    assert check is not None
    assert (check.definition, check.digest, check.ok) == ("differs", "matches", False)


async def test_a_changed_history_of_another_run_is_found(golden_runs: Path) -> None:
    before, run = asked("agreed"), asked("only maria")
    change = f"UPDATE events SET content = reworded(content, ?, ?) WHERE {OF_STREAM}"
    tampered(golden_runs, change, b"agreed", b"denied", f"run/{before}")
    async with explainer(golden_runs) as explain:
        why = await explain.answer(run)
    check = why.model.requests[-1].check
    assert check is not None
    assert check.history is not None
    assert before in check.history


async def test_erased_content_is_shown_as_such_and_contradicts_nothing(golden_runs: Path) -> None:
    run = asked("refund 300")
    assert tampered(golden_runs, f"UPDATE events SET key_id = 'k' WHERE content <> '' AND {OF_STREAM}", f"run/{run}")
    async with explainer(golden_runs) as explain:
        call, answer, spend = (
            await explain.call(f"{run}/0.0"),
            await explain.answer(run),
            await explain.spend(run),
        )
    assert call.call.erased
    assert (call.asked, call.binding) == (ERASED, "erased")
    (request,) = call.model.requests
    assert request.erased
    assert [(seen.message, seen.erased) for seen in request.messages] == [(None, True)]
    assert request.check is not None
    assert request.check.digest == "erased"
    assert sound(call)
    assert sound(answer)
    assert [cost.output_tokens for cost in spend.costs] == [5, 5]
    gone = answer.model.requests[-1].messages
    assert all(seen.erased for seen in gone)


async def test_a_run_of_a_newer_release_is_explained_as_far_as_it_can_be_read(golden_runs: Path) -> None:
    run = asked("refund 300")
    assert tampered(
        golden_runs, f"UPDATE events SET schema = 9 WHERE type = 'action.started' AND {OF_STREAM}", f"run/{run}"
    )
    async with explainer(golden_runs) as explain:
        why = await explain.call(f"{run}/0.0")
    assert names(why.facts)[-1] == "ApprovalDecided"
    assert why.origin.unread is not None
    assert "action.started schema 9 is newer than 1" in why.origin.unread


async def test_a_history_that_cannot_be_read_here_is_no_contradiction(golden_runs: Path) -> None:
    change = f"UPDATE events SET schema = 9 WHERE version = 3 AND {OF_STREAM}"
    assert tampered(golden_runs, change, f"run/{asked('hello')}") == 1
    async with explainer(golden_runs) as explain:
        turn, summed = await explain.answer(asked("hello again")), await explain.answer(asked("what was said"))
    check = turn.model.requests[-1].check
    assert check is not None
    assert (check.digest, check.history, check.ok) == ("matches", None, True)
    assert check.unread is not None
    assert "schema 9 is newer" in check.unread
    assert summed.origin.summaries[0].digest == "unread"
    assert sound(summed)


async def test_made_up_families_do_not_go_in_circles(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "j.db", registry=REGISTRY) as journal:
        for run, other in (("A", "B"), ("B", "A")):
            await journal.append(f"run/{run}", [ev.RunSubmitted("x", parent=Parent(other, "0.0"))])
        why = await Explainer(journal).answer("A")
        assert why.origin.caller is None


async def test_what_is_not_there_is_said(golden_runs: Path) -> None:
    run = asked("refund 300")
    async with explainer(golden_runs) as explain:
        with pytest.raises(UnknownAction, match=r"has no call 7\.0; it has 0\.0"):
            await explain.call(f"{run}/7.0")
        with pytest.raises(UnknownAction, match="does not name a call"):
            await explain.call(f"{run}/x")
        with pytest.raises(UnknownRun):
            await explain.answer("nobody")
        trace = await read_trace(explain.journal, run)
    assert attrs.asdict(trace.calls["0.0"], recurse=False)["outcome"] == "ok"


async def test_what_hooks_kept_from_the_model_is_listed_with_the_hook_that_did(tmp_path: Path) -> None:
    said = tuple(Human(f"m{number}", f"word {number}") for number in range(5))
    applied = [
        (
            "early",
            (Drop(["m1"]), Insert(Human("note", "mind the gap"), after="m0"), Replace(Human("m4", "word four"))),
        ),
        (
            "late",
            (Drop((), through="m2"), Insert(Human("end", "now"), after="m4"), Replace(Human("end", "now, please"))),
        ),
    ]
    events = [
        ev.RunSubmitted("x", input=said, salt=b"s"),
        ev.RunStarted("none", "", "", 1, ev.Limits(3)),
        *(ev.HookApplied("before_model", "0", done=(ev.HookDone(hook, ops),)) for hook, ops in applied),
        ev.ModelRequested(0, 1, b"made up"),
    ]
    async with Journal.open(tmp_path / "j.db", registry=REGISTRY) as journal, journal.drive("tests") as fence:
        await journal.append("run/X", events, fence=fence)
        (request,) = (await Explainer(journal).model_call("X", 0)).requests
    seen_by = [(each.message, each.hook.hook if each.hook else "") for each in request.messages]
    shown = [(text(message.content), hook) for message, hook in seen_by if message is not None]
    assert shown == [("word 3", ""), ("word four", "early"), ("now, please", "late")]
    (replaced,) = [seen.original for seen in request.messages if seen.original is not None]
    assert text(replaced.content) == "word 4"
    left = [(text(each.message.content), each.hook.hook if each.hook else "") for each in request.left_out]
    assert left == [("word 0", "late"), ("word 1", "early"), ("word 2", "late")]
    assert request.check is not None
    assert (request.check.digest, request.check.definition) == ("differs", "missing")
