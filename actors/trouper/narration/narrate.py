"""Events as sentences: who did what, on one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from trouper.core import events as ev
from trouper.core.effects import Effect
from trouper.narration.forks import fork_text
from trouper.narration.line import (
    ERASED_TEXT,
    PERHAPS_TEXT,
    RUNTIME,
    asked_text,
    because_text,
    deed,
    reason_text,
    said_text,
)
from trouper.narration.line import Line as Line
from trouper.narration.narrate_approvals import APPROVAL_SENTENCES, gate_text, waits_text
from trouper.narration.narrate_archives import ARCHIVE_SENTENCES
from trouper.narration.narrate_children import CHILD_SENTENCES
from trouper.narration.narrate_control import CONTROL_SENTENCES
from trouper.narration.narrate_damage import damage_line
from trouper.narration.narrate_erasures import ERASURE_SENTENCES
from trouper.narration.narrate_hooks import HOOK_SENTENCES
from trouper.narration.narrate_model import MODEL_SENTENCES
from trouper.narration.narrate_restores import RESTORE_SENTENCES
from trouper.narration.narrate_session import SESSION_SENTENCES
from trouper.narration.narrate_state import STATE_SENTENCES
from trouper.narration.narrate_tools import TOOL_SENTENCES, beside
from trouper.narration.spending import BUDGET_SENTENCES
from trouper.narration.text import (
    CUT,
    call_text,
    clean,
    count,
    name_text,
    quoted,
    result_text,
    value_text,
    who,
)
from trouper.narration.when import when
from trouper_journal import Archived, Damaged, Erased, Record, Value, unpack_map

_CAUSES = {
    "lost": "its process died, and nobody knows how far it had come",
    "timeout": "it ran out of time",
    "cancelled": "it was stopped because the run is being cancelled",
    "deadline": "it was stopped because the run's deadline had passed",
    "shutdown": "it was stopped with the runtime",
    "exception": "it raised an unexpected error",
    "transient": "it failed without effect and may be tried again",
    "retryable": "it raised an error that is worth another attempt",
    "tool_error": "this attempt failed without effect, but an earlier one may have had one",
    "not_begun": "it ended before the tool was called",
    "restored": "the journal was put back to an older copy, and what it came to since is not in it",
}
_EVIDENCE = {
    "query": " (as its query found)",
    "late": " (after it had been given up)",
    "person": " (as a person found)",
}
_NEXT = {
    Effect.READ_ONLY: "a call that only reads is run again",
    Effect.IDEMPOTENT_WRITE: "such a write is run again under the same effect key",
    Effect.QUERYABLE_WRITE: "its query is asked",
    Effect.UNQUERYABLE_WRITE: "such a write is never run again by itself",
}
_VERDICTS = {
    "applied": "says that it took effect",
    "not_applied": "says that it did not take effect",
    "run_again": "lets it run again",
    "abandon": "gives it up: whether it took effect stays unknown",
}


@define
class Narrator:
    """Tells one run's events in order; it remembers what later events only refer to.

    Attributes:
        limit: Characters of a text that a line shows; None for all.
    """

    limit: int | None = CUT
    _tools: dict[str, str] = field(factory=dict)
    _effects: dict[str, Effect] = field(factory=dict)
    _digests: dict[str, bytes] = field(factory=dict)
    _epoch: int | None = None

    def tell(self, record: Record, event: object | None) -> Line:
        """The line for an event; one that this release does not know is only named."""
        sentence = _SENTENCES.get(type(event))
        if sentence is None and (further := _FURTHER.get(type(event))) is not None:
            line = further(event, self.limit)
        elif isinstance(record, Archived):
            return Line("?", f"[archived] {clean(record.file)} has what is recorded here", "dim")
        elif isinstance(record, Damaged):
            return damage_line(record)
        elif sentence is None:
            return Line("?", f"{clean(record.type)} (schema {record.schema}, unknown to this release)", "dim")
        else:
            line = sentence(self, event)
        # Whatever field it came from: a journal that somebody made up must not write to a terminal either.
        return Line(clean(line.who), clean(line.text), line.style)

    def handover(self, record: Record) -> Line | None:
        """A line where another process than before drives the run; records of others carry no epoch."""
        epoch = unpack_map(record.meta).get("epoch")
        if not isinstance(epoch, int) or epoch == self._epoch:
            return None
        first, self._epoch = self._epoch is None, epoch
        return None if first else Line(RUNTIME, f"another process drives the run from here (epoch {epoch})", "dim")

    def tool(self, action: str) -> str:
        """The tool's name, as far as it was told of before."""
        return name_text(self._tools.get(action, "tool"))

    def _said(self, text: str | Erased | None) -> str:
        return said_text(text, self.limit)

    def _reason(self, text: str | Erased | None) -> str:
        return reason_text(text, self.limit)

    # ---- the run

    def submitted(self, event: ev.RunSubmitted) -> Line:
        """Somebody asked."""
        asked = asked_text(event.input, self.limit)
        if event.parent is not None:
            caller = name_text(event.path[-2] if len(event.path) > 1 else "?")
            call = f"call {event.parent.action} of run {clean(event.parent.run)}"
            return Line(caller, f"asks {clean(event.agent)}: {asked}  (for {who(event.by)}; {call})", "model")
        limits = "" if event.limits is None else f" (at most {count(event.limits.max_steps, 'step')})"
        start = "" if event.start_at is None else f", not before {when(event.start_at)}"
        start += "" if event.deadline is None else f", until {when(event.deadline)}"
        forked = "" if event.fork is None or not event.fork.run else f", in {fork_text(event.fork)}"
        said = f"asks {clean(event.agent)}: {asked}{limits}{start}{forked}"
        return deed(event.by, said) if event.by else Line(who(None), said, "person")

    def started(self, event: ev.RunStarted) -> Line:
        """The run was taken up."""
        steps = count(event.limits.max_steps, "step")
        text = f"takes the run up: definition {event.definition[:8]}, rules {event.rules}, at most {steps}"
        return Line(RUNTIME, f"{text}{_base(event.base)}", "dim")

    def adopted(self, event: ev.DefinitionAdopted) -> Line:
        """The definition changed."""
        return deed(event.by, f"lets the run go on under definition {event.definition[:8]}")

    def waiting(self, event: ev.RunWaiting) -> Line:
        """Nothing to do."""
        if event.reason == "drift":
            details = ERASED_TEXT if isinstance(event.details, Erased) else clean("; ".join(event.details))
            return Line(RUNTIME, f"holds the run: the agent's definition changed ({details})", "doubt")
        return Line(RUNTIME, "has seen everything, and has nothing to do now", "dim")

    def succeeded(self, event: ev.RunSucceeded) -> Line:
        """The end."""
        by = "" if event.source is None else f" with the result of {clean(event.source)}"
        return Line(RUNTIME, f"the run succeeded{by}", "ok")

    def failed(self, event: ev.RunFailed) -> Line:
        """The end."""
        return Line(RUNTIME, f"the run failed ({event.kind}){because_text(event.message, self.limit)}", "bad")

    def cancelled(self, _: ev.RunCancelled) -> Line:
        """The end."""
        return Line(RUNTIME, "the run is cancelled", "bad")

    def cancel_requested(self, event: ev.CancelRequested) -> Line:
        """Somebody wants the end."""
        return deed(event.by, f"wants the run cancelled{self._reason(event.reason)}")

    def resumed(self, event: ev.ResumeRequested) -> Line:
        """Somebody lets it go on."""
        return deed(event.by, f"lets the run go on{self._reason(event.reason)}")

    # ---- calls

    def planned(self, event: ev.ActionPlanned) -> Line:
        """A call was read."""
        self._tools[event.action] = event.tool
        self._effects[event.action] = event.effect
        if event.gate in {"refused", "limit"}:
            reason = " because the run has reached its limit" if event.gate == "limit" else _refusal(event, self.limit)
            return Line(name_text(event.tool), f"{event.action} is refused{reason}", "bad")
        call = call_text(event.tool, event.arguments, self.limit)
        if event.gate == "output":
            return Line(name_text(event.tool), f"{event.action} {call} hands in the final output", "dim")
        return Line(name_text(event.tool), f"{event.action} {call} {gate_text(event, self.limit)}", "dim")

    def replanned(self, event: ev.ActionReplanned) -> Line:
        """A call was looked at anew."""
        self._effects[event.action] = event.effect
        if event.gate == "refused":
            return Line(self.tool(event.action), f"{event.action} is refused{_refusal(event, self.limit)}", "bad")
        gate = gate_text(event, self.limit)
        return Line(self.tool(event.action), f"{event.action} still fits after the change: {gate}", "dim")

    def approval_requested(self, event: ev.ApprovalRequested) -> Line:
        """A person is asked."""
        self._digests[event.action] = event.digest
        return Line(self.tool(event.action), f"{event.action} {waits_text(event)}", "doubt")

    def approval_decided(self, event: ev.ApprovalDecided) -> Line:
        """A person decided."""
        verb = "approves" if event.decision == "approve" else "denies"
        tool, edit = self.tool(event.action), event.arguments
        asked = self._digests.get(event.action, event.digest)
        if isinstance(edit, Erased) and event.digest == asked:
            # Whoever changes the arguments decides on another digest.
            edit = None
        self._digests[event.action] = event.digest
        call = tool if edit is None else f"with other arguments: {call_text(tool, edit, self.limit)}"
        return deed(event.by, f"{verb} {event.action} {call}{self._reason(event.reason)}")

    def approval_expired(self, event: ev.ApprovalExpired) -> Line:
        """A request lapsed."""
        why = "nobody decided in time" if event.reason == "time" else "the tool changed meanwhile"
        return Line(self.tool(event.action), f"{event.action} is no longer asked for: {why}", "bad")

    def action_started(self, event: ev.ActionStarted) -> Line:
        """An attempt."""
        again = f"starts again (attempt {event.attempt})" if event.attempt > 1 else "starts"
        return Line(self.tool(event.action), f"{event.action} {again}")

    def receipted(self, event: ev.ActionReceipted) -> Line:
        """The outcome."""
        evidence = _EVIDENCE.get(event.evidence, "")
        if event.outcome == "ok":
            result = ERASED_TEXT if isinstance(event.text, Erased) else result_text(event.text, self.limit)
            text = f"{event.action} returns {result}{evidence}{beside(event)}"
            return Line(self.tool(event.action), text, "ok")
        return Line(self.tool(event.action), f"{event.action} ends without success: {self._said(event.text)}", "bad")

    def interrupted(self, event: ev.ActionInterrupted) -> Line:
        """No outcome."""
        effect = self._effects.get(event.action)
        if effect is Effect.READ_ONLY and event.cause in {"timeout", "cancelled"}:
            # What the tool's caller says of an effect is said whatever the tool promises.
            text = f"{event.action} has no outcome: {_CAUSES[event.cause]}; it only reads, so nothing is in doubt"
            return Line(self.tool(event.action), text, "bad")
        what = _in_brackets(event.message, self.limit)
        then = f"; {_NEXT[effect]}" if effect is not None and event.cause in {"lost", "shutdown"} else ""
        text = f"{event.action} has no outcome: {_CAUSES.get(event.cause, event.cause)}{what}{then}"
        return Line(self.tool(event.action), text, "doubt")

    def queried(self, event: ev.ActionQueried) -> Line:
        """The query's answer."""
        answer = "it did not take place" if event.answer == "absent" else "it cannot tell"
        what = self._reason(event.message)
        return Line(self.tool(event.action), f"{event.action} its query says: {answer}{what}", "doubt")

    def unresolved(self, event: ev.ActionUnresolved) -> Line:
        """A doubt."""
        text = f"{event.action} is in doubt until a person settles it{because_text(event.text, self.limit)}"
        return Line(self.tool(event.action), text, "doubt")

    def resolved(self, event: ev.ActionResolved) -> Line:
        """A doubt was settled."""
        verdict = _VERDICTS.get(event.verdict, event.verdict)
        return deed(event.by, f"{verdict} ({event.action} {self.tool(event.action)}){self._reason(event.evidence)}")

    def returned_late(self, event: ev.ActionReturnedLate) -> Line:
        """A note."""
        how = "succeeded" if event.outcome == "ok" else "failed"
        said = because_text(event.text, self.limit)
        text = f"{event.action} attempt {event.attempt} came back after all: it had {how}{said}"
        return Line(self.tool(event.action), text, "dim")

    def output_accepted(self, event: ev.OutputAccepted) -> Line:
        """The final output."""
        return Line(RUNTIME, f"accepts the output: {value_text(event.value, self.limit)}", "ok")

    def output_rejected(self, event: ev.OutputRejected) -> Line:
        """No final output."""
        why = "something is missing" if event.kind == "incomplete" else "it does not fit"
        return Line(RUNTIME, f"does not accept the answer, because {why}{because_text(event.text, self.limit)}", "bad")

    def recorded(self, event: ev.DefinitionRecorded) -> Line:
        """A definition document."""
        name = "" if isinstance(event.document, Erased) else agent_named_in(event.document)
        text = f"records the definition of agent {clean(name)}" if name else "records a definition"
        return Line(RUNTIME, text, "dim")

    def driver_started(self, event: ev.DriverStarted) -> Line:
        """A process took the journal."""
        return Line(RUNTIME, f"{quoted(event.node)} drives the journal (epoch {event.epoch})", "dim")


def _refusal(event: ev.ActionPlanned | ev.ActionReplanned, limit: int | None) -> str:
    """What the model is told, where a call is refused."""
    return because_text("" if event.refusal is None else event.refusal, limit)


def _in_brackets(text: str | Erased, limit: int | None) -> str:
    if isinstance(text, Erased):
        return f" ({PERHAPS_TEXT})"
    return f" ({quoted(text, limit)})" if text else ""


def agent_named_in(document: Mapping[str, Value]) -> str:
    """Whose definition a document is; ``""`` where it does not say."""
    contract = document.get("contract")
    name = contract.get("name") if isinstance(contract, dict) else None
    return name if isinstance(name, str) else ""


def _base(base: ev.Base | None) -> str:
    if base is None:
        return ""
    refs = ", ".join(f"{clean(ref.run)} up to event {ref.version}" for ref in base.refs)
    return f"; it starts from {count(base.messages, 'message')} ({refs})"


_SENTENCES: Mapping[type, Callable[..., Line]] = {
    ev.DefinitionRecorded: Narrator.recorded,
    ev.DriverStarted: Narrator.driver_started,
    ev.RunSubmitted: Narrator.submitted,
    ev.RunStarted: Narrator.started,
    ev.DefinitionAdopted: Narrator.adopted,
    ev.ActionPlanned: Narrator.planned,
    ev.ActionReplanned: Narrator.replanned,
    ev.ApprovalRequested: Narrator.approval_requested,
    ev.ApprovalDecided: Narrator.approval_decided,
    ev.ApprovalExpired: Narrator.approval_expired,
    ev.ActionStarted: Narrator.action_started,
    ev.ActionReceipted: Narrator.receipted,
    ev.ActionInterrupted: Narrator.interrupted,
    ev.ActionQueried: Narrator.queried,
    ev.ActionUnresolved: Narrator.unresolved,
    ev.ActionResolved: Narrator.resolved,
    ev.ActionReturnedLate: Narrator.returned_late,
    ev.OutputAccepted: Narrator.output_accepted,
    ev.OutputRejected: Narrator.output_rejected,
    ev.CancelRequested: Narrator.cancel_requested,
    ev.ResumeRequested: Narrator.resumed,
    ev.RunWaiting: Narrator.waiting,
    ev.RunSucceeded: Narrator.succeeded,
    ev.RunFailed: Narrator.failed,
    ev.RunCancelled: Narrator.cancelled,
}

# Those that need nothing of what was told before.
_FURTHER: Mapping[type, Callable[..., Line]] = {
    **MODEL_SENTENCES,
    **STATE_SENTENCES,
    **ERASURE_SENTENCES,
    **HOOK_SENTENCES,
    **CONTROL_SENTENCES,
    **CHILD_SENTENCES,
    **SESSION_SENTENCES,
    **TOOL_SENTENCES,
    **BUDGET_SENTENCES,
    **APPROVAL_SENTENCES,
    **ARCHIVE_SENTENCES,
    **RESTORE_SENTENCES,
}
