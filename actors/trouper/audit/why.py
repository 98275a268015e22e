"""Why something happened: the causal chain behind an action, an answer or a spend, rebuilt from the journal alone.

The chain goes from the outcome back over whoever allowed it and the model's reply to the very messages that the model
saw, and on to whoever asked for the run; down into sub-agents and up to the runs that called this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from attrs import define, field

from trouper.audit.chain import AnswerWhy as AnswerWhy
from trouper.audit.chain import Binding, ModelWhy, OriginWhy, RuleWhy
from trouper.audit.chain import CallWhy as CallWhy
from trouper.audit.chain import SpendWhy as SpendWhy
from trouper.audit.definitions import read_document
from trouper.audit.elsewhere import Elsewhere, broken
from trouper.audit.seen import Past, Request, Sent, rebuild
from trouper.audit.summaries import summary_of
from trouper.audit.trace import Call, Entry, Trace, read_entry, read_trace
from trouper.core import events as ev
from trouper.core.conversation import AI, Message, ToolMessage
from trouper.core.digests import call_digest
from trouper.core.evolve_session import lead_of
from trouper.core.family import child_id
from trouper.core.hooking import replaced
from trouper.core.rule_events import APPROVALS
from trouper.core.session import SessionTurn
from trouper.core.state import RunState
from trouper.core.status import status
from trouper.errors import JournalCorrupt, JournalError, UnknownAction, UnknownEvent, UnknownRun
from trouper.runtime.histories import Histories
from trouper_journal import ERASED, Erased, Journal, Printable, Value

ALL_LEVELS = 16
"""Deeper than agents can call each other."""


@define(eq=False, repr=False)
class Explainer(Printable):
    """Explains what stands in a journal.

    Attributes:
        journal: The journal, opened with `trouper.REGISTRY`.
        levels: How deep sub-agents are followed.
    """

    journal: Journal
    levels: int = ALL_LEVELS
    _elsewhere: Elsewhere = field(init=False)

    @_elsewhere.default
    def _begin(self) -> Elsewhere:
        return Elsewhere(self.journal)

    async def call(self, action: str) -> CallWhy:
        """Why a call was made, or was not.

        Args:
            action: Its full id, ``<run>/<model index>.<call index>``.

        Raises:
            UnknownRun, UnknownAction: There is none of that id.
            JournalError: The journal cannot be read.
        """
        run, _, name = action.rpartition("/")
        return await self._call(run, name, self.levels, up=ALL_LEVELS)

    async def model_call(self, run: str, index: int) -> ModelWhy:
        """A model call, with every attempt as it was sent.

        Raises:
            UnknownRun: There is none of that id.
            JournalError: The journal cannot be read.
        """
        return await self._model(await read_trace(self.journal, run, index), index)

    async def answer(self, run: str) -> AnswerWhy:
        """Why a run ended as it did, or stands as it stands.

        Raises:
            UnknownRun: There is none of that id.
            JournalError: The journal cannot be read.
        """
        return await self._answer(run, self.levels, up=ALL_LEVELS)

    async def spend(self, run: str) -> SpendWhy:
        """What a run has spent, and on what.

        Raises:
            UnknownRun: There is none of that id.
            JournalError: The journal cannot be read.
        """
        return await self._spend(run, self.levels, up=ALL_LEVELS)

    # ---- calls

    async def _call(self, run: str, name: str, levels: int, *, up: int) -> CallWhy:
        index, _, number = name.partition(".")
        if not (index.isdecimal() and number.isdecimal()):
            raise UnknownAction(f"{run}/{name} does not name a call: calls are named RUN/1.0")
        trace = await read_trace(self.journal, run, int(index))
        model = await self._model(trace, int(index))
        asked = _asked(trace, model, int(number))
        call = trace.calls.get(name)
        if call is None and asked is None:
            if trace.unread is not None:
                raise UnknownAction(f"run {run} cannot be read to a call {name}: {trace.unread}")
            raise UnknownAction(f"run {run} has no call {name}{_so_far(trace)}")
        if call is None:
            # Asked for, and not looked at yet.
            place = 0 if model.reply is None else model.reply.record.position
            call = Call(name, asked.name if asked else "", None, place)
        facts = tuple(entry for entry in trace.about_call if _is_of(entry.event, name))
        last = facts[-1].record.position if facts else call.position
        below = levels > 0 and call.child in _children(trace)
        return CallWhy(
            call=call,
            run=run,
            asked=ERASED if f"{run}/{index}" in trace.gone else asked,
            facts=facts,
            rules=tuple([await self._rule(rule) for rule in call.rules]),
            binding=_binding(trace.state, facts, call.void),
            breach=await self._breach(trace, name),
            told=_told(trace.state, name),
            model=model,
            origin=await self._origin(trace, last, up=up),
            child=await self._below(call.child, levels) if below else None,
            told_erased=f"{run}/{name}" in trace.gone,
        )

    async def _breach(self, trace: Trace, name: str) -> str | None:
        for state, plan, position in trace.plans:
            found = await broken(self._elsewhere, state, plan, position) if plan.action == name else None
            if found is not None:
                return found
        return None

    async def _below(self, run: str, levels: int) -> AnswerWhy | None:
        try:
            return await self._answer(run, levels - 1, up=0)
        except UnknownRun:
            # Archived, or a journal that somebody cut: the call's own facts say what the child came to.
            return None

    async def _rule(self, rule: str) -> RuleWhy:
        added: Entry | None = None
        revoked: Entry | None = None
        async for record in self.journal.read(APPROVALS):
            entry = read_entry(self.journal, record)
            match entry.event:
                case ev.RuleAdded() if entry.event.rule == rule and added is None:
                    added = entry
                case ev.RuleRevoked() if entry.event.rule == rule and revoked is None:
                    revoked = entry
        return RuleWhy(rule, added, revoked)

    # ---- model calls

    async def _model(self, trace: Trace, index: int) -> ModelWhy:
        facts = tuple(entry for entry in trace.about_call if _is_of_model(entry.event, index))
        replies = [entry for entry in facts if isinstance(entry.event, ev.ModelResponded)]
        forked = trace.state.forked
        taken_over = forked.of.run if forked is not None and index < forked.replies else ""
        requests = [await self._request(sent, trace) for sent in trace.sent]
        return ModelWhy(index, tuple(requests), facts, replies[-1] if replies else None, taken_over)

    async def _request(self, sent: Sent, trace: Trace) -> Request:
        document = await read_document(self.journal, sent.state.definition)
        return rebuild(sent, await past_of(self._elsewhere.histories, sent.state), document, trace.gone)

    # ---- answers

    async def _answer(self, run: str, levels: int, *, up: int) -> AnswerWhy:
        trace = await read_trace(self.journal, run)
        state = trace.state
        ended = [entry for entry in trace.about_run if isinstance(entry.event, _ENDINGS)]
        structured = state.answer.verdict == "accepted" and state.output is not None
        children = [await self._below(child, levels) for child in _children(trace)] if levels > 0 else []
        return AnswerWhy(
            run=run,
            output=trace.output,
            ended=ended[-1] if ended and state.ended else None,
            source=state.tools.source or (state.answer.action if structured else None),
            model=await self._model(trace, trace.focus_index),
            calls=tuple(trace.calls.values()),
            origin=await self._origin(trace, trace.last, up=up),
            children=tuple(child for child in children if child is not None),
        )

    # ---- spending

    async def _spend(self, run: str, levels: int, *, up: int) -> SpendWhy:
        trace = await read_trace(self.journal, run)
        children: list[SpendWhy] = []
        for child in _children(trace) if levels > 0 else ():
            try:
                children.append(await self._spend(child, levels - 1, up=0))
            except UnknownRun:
                continue
        return SpendWhy(
            run=run,
            spent=trace.state.spent,
            own=trace.state.own_spent,
            limits=trace.state.limits,
            costs=tuple(trace.costs),
            calls=tuple(call for call in trace.calls.values() if call.attempts),
            facts=tuple(trace.limits),
            origin=await self._origin(trace, trace.last, up=up),
            children=tuple(children),
        )

    # ---- origins

    async def _origin(self, trace: Trace, until: int, *, up: int) -> OriginWhy:
        facts = [entry for entry in trace.about_run if entry.record.position <= until]
        submitted = next((entry for entry in facts if isinstance(entry.event, ev.RunSubmitted)), None)
        event = None if submitted is None else submitted.event
        started = next((entry.event for entry in facts if isinstance(entry.event, ev.RunStarted)), None)
        asked = event if isinstance(event, ev.RunSubmitted) else None
        return OriginWhy(
            run=trace.run,
            agent=trace.state.agent,
            label=status(trace.state).label,
            submitted=submitted,
            facts=tuple(entry for entry in facts if entry is not submitted),
            session=() if asked is None or asked.turn is None else await self._session(asked.turn),
            fork_of="" if asked is None or asked.fork is None else asked.fork.run,
            caller=None if asked is None else await self._caller(asked, up),
            document=await read_document(self.journal, started.definition if started is not None else ""),
            summaries=tuple(
                [
                    await summary_of(self._elsewhere.histories, entry, entry.event, state)
                    for entry, state in trace.summaries
                    if isinstance(entry.event, ev.SummaryRequested)
                ]
            ),
            unread=trace.unread,
            withheld=trace.withheld,
        )

    async def _caller(self, asked: ev.RunSubmitted, up: int) -> CallWhy | None:
        if asked.parent is None or up == 0:
            return None
        try:
            # The runs above it, and not once more down to this one.
            return await self._call(asked.parent.run, asked.parent.action, 0, up=up - 1)
        except (UnknownRun, UnknownAction):
            return None

    async def _session(self, turn: SessionTurn) -> tuple[Entry, ...]:
        stream = f"session/{turn.session}"
        found = list(await self.journal.read_page(stream, limit=1))
        if turn.queued > 1:
            found += await self.journal.read_page(stream, after=turn.queued - 1, limit=1)
        return tuple(read_entry(self.journal, record) for record in found)


async def past_of(histories: Histories, state: RunState) -> Past:
    """What comes before a run's own messages, held against what was pinned of it.

    Raises:
        JournalError: The journal cannot be read.
    """
    lead = lead_of(state)
    if state.base is None:
        return Past(lead=lead)
    try:
        pieces = await histories.pieces(state.base.refs)
        segments = [await histories.segment(piece.ref.run, piece.ref.version) for piece in pieces]
        difference = await histories.difference(state)
    except UnknownEvent as error:
        # Of a newer release, or moved out to an archive: that contradicts nothing.
        return Past((), lead, unread=str(error))
    except (UnknownRun, JournalCorrupt) as error:
        return Past((), lead, f"it starts from what cannot be read: {error}")
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 -- another run's records may be made up, and break the fold
        return Past((), lead, f"it starts from what cannot be folded: {error!r}")
    return Past(tuple(pieces), lead, difference, any(segment.erased for segment in segments))


def sound(why: CallWhy | AnswerWhy) -> bool:
    """Whether nothing that was computed anew contradicts the record, in the whole chain."""
    requests = all(request.check is None or request.check.ok for request in why.model.requests)
    requests = requests and all(summary.digest != "differs" for summary in why.origin.summaries)
    caller = why.origin.caller is None or sound(why.origin.caller)
    if isinstance(why, CallWhy):
        own = why.binding != "differs" and why.breach is None
        return requests and caller and own and (why.child is None or sound(why.child))
    return requests and caller and all(sound(child) for child in why.children)


def _children(trace: Trace) -> list[str]:
    """The runs that its calls began; by their names, so that no made-up journal goes in circles."""
    return [call.child for call in trace.calls.values() if call.child == child_id(trace.run, call.action)]


_NOTHING: Mapping[str, Value] | None = None
_ENDINGS = (ev.RunSucceeded, ev.RunFailed, ev.RunCancelled)
_OF_MODEL = frozenset({"before_model", "after_model", "on_error"})


def _is_of(event: object, name: str) -> bool:
    """Whether an event is about this call."""
    if isinstance(event, ev.HookApplied):
        return event.subject == name and event.point not in _OF_MODEL
    if isinstance(event, ev.StateChanged):
        return event.source == "action" and event.name == name
    return getattr(event, "action", None) == name


def _is_of_model(event: object, index: int) -> bool:
    """Whether an event is about this model call, and not about one of its reply's calls."""
    if isinstance(event, ev.HookApplied):
        return event.point in _OF_MODEL and event.subject.partition(".")[0] == str(index)
    return getattr(event, "index", None) == index


def _asked(trace: Trace, model: ModelWhy, number: int) -> ev.AskedCall | None:
    name = f"{trace.run}/{model.index}"
    reply = next((message for message in trace.state.messages if message.id == name), None)
    if not isinstance(reply, AI) or number >= len(reply.tool_calls):
        return None
    call = reply.tool_calls[number]
    return ev.AskedCall(call.name, call.arguments, call.provider_id, dict(call.extra) or None)


def _told(state: RunState, name: str) -> Message | None:
    for message in state.messages:
        if isinstance(message, ToolMessage) and message.id == f"{state.run}/{name}":
            return replaced(message, state.hooks.ops)
    return None


def _so_far(trace: Trace) -> str:
    names = list(trace.calls)
    if not names:
        return ": it has made none"
    some = ", ".join(names[:8])
    return f"; it has {some}{', ...' if len(names) > 8 else ''}"


def _binding(state: RunState, facts: Iterable[Entry], void: Collection[int]) -> Binding:
    """Hold each digest that stands for the call against the call itself; decisions that did not count bind nothing."""
    tool, identity, digest, planned = "", b"", b"", b""
    arguments = original = _NOTHING
    verdict: Binding = "none"
    for entry in facts:
        match entry.event:
            case ev.ActionPlanned() as plan:
                tool, identity, digest, planned = plan.tool, plan.identity, plan.digest, plan.digest
                if isinstance(plan.arguments, Erased):
                    return "erased"
                arguments = original = plan.arguments
            case ev.ActionReplanned() as plan:
                identity, digest, planned, arguments = plan.identity, plan.digest, plan.digest, original
            case ev.ApprovalExpired():
                # What was agreed lapses with the request, an edit included.
                digest, arguments = planned, original
            case ev.ApprovalDecided() as decided if entry.record.position not in void:
                if isinstance(decided.arguments, Erased):
                    return "erased"
                if decided.arguments is not None:
                    digest, arguments = decided.digest, decided.arguments
                elif decided.digest != digest:
                    return "differs"
            case _:
                continue
        if digest and arguments is not None:
            if not state.salt:
                return "erased"
            if call_digest(state.salt, tool, identity, arguments) != digest:
                return "differs"
            verdict = "matches"
    return verdict
