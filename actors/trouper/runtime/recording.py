"""From what was delivered to what is recorded: outcomes in, events out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from attrs import evolve

from trouper.core import events as ev
from trouper.core import wording
from trouper.core.action_events import Cause
from trouper.core.conversation import text as text_of
from trouper.core.decide import decide
from trouper.core.prices import Price
from trouper.core.state import Action, Phase, RunState
from trouper.core.steps import Authorize, BindTools
from trouper.errors import ArgumentsError, InvalidValue, ModelError
from trouper.runtime.billing import settle
from trouper.runtime.protocol import SUMMARY, Acted, Advised, Answered, Hooked, Outcome, Replied
from trouper.runtime.record_hooks import hooked
from trouper.tools import StateKeys, changes
from trouper.tools._outcomes import described
from trouper_journal import Value

SECOND = 1_000_000_000

# Waits between attempts: doubled from half a second, never above a minute; a provider's Retry-After is kept to.
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 60.0
# Some send a moment in place of a number of seconds, or any number at all: nobody waits for years.
_LONGEST_ASKED = 86_400.0

# Ends of an attempt after which a tool that says how long to wait is waited for.
_WAITED_FOR = frozenset({"transient", "retryable", "exception", "timeout"})


def retry_at(now: int, attempt: int, asked: float | None, jitter: float) -> int:
    """When to try again.

    Args:
        now: Now, ns UTC.
        attempt: Number of the attempt that failed, from 1.
        asked: Seconds that the other side asked to wait, or None; more than a day counts as a day.
        jitter: A random number in [0, 1).
    """
    wait = min(_FIRST_WAIT * 2.0 ** min(attempt - 1, 16), _LONGEST_WAIT) * (0.5 + jitter / 2)
    return now + int(max(wait, min(asked or 0.0, _LONGEST_ASKED)) * SECOND)


def _still_asked(state: RunState, step: Authorize | BindTools, about: RunState) -> bool:
    """Whether the answer is to what the rules want to know now.

    A call may have become another one meanwhile; and tools are chosen for what the model will see, and no less.
    """
    if step not in decide(state):
        return False
    if isinstance(step, BindTools):
        return state.chain == about.chain and state.named == about.named
    now, then = state.action(step.action), about.action(step.action)
    return now is not None and then is not None and now.digest == then.digest


def _no_price(agent: str, asked: str, answered: str | None) -> Price | None:  # noqa: ARG001
    return None


def _no_keys(agent: str) -> StateKeys:  # noqa: ARG001
    return {}


class Recorder:
    """Turns outcomes into events of one run.

    Args:
        now: The time, ns UTC.
        random: A random number in [0, 1).
        draining: Whether the runtime is stopping.
        keys: The keys of an agent's named state, by the agent's name.
        price: The price of an agent's model, by the agent's name, the model that was asked (empty for its own), and
            the name that the model gave itself.
    """

    def __init__(
        self,
        now: Callable[[], int],
        random: Callable[[], float],
        draining: Callable[[], bool],
        keys: Callable[[str], StateKeys] = _no_keys,
        price: Callable[[str, str, str | None], Price | None] = _no_price,
    ) -> None:
        self._now = now
        self._random = random
        self._draining = draining
        self._keys = keys
        self._price = price

    def record(self, state: RunState, outcome: Outcome) -> Iterator[object]:
        """The events that an outcome stands for; none for one that no longer matters."""
        match outcome:
            case Replied():
                yield from self._replied(state, outcome)
            case Acted():
                yield from self._acted(state, outcome)
            case Answered():
                yield from self._answered(state, outcome)
            case Advised(step, event, about):
                if _still_asked(state, step, about):
                    yield event
            case Hooked():
                agent = state.agent
                yield from hooked(state, outcome, self._keys(agent), lambda model: self._price(agent, model, model))

    def _replied(self, state: RunState, outcome: Replied) -> Iterator[object]:
        if outcome.index == SUMMARY:
            yield from self._summarised(state, outcome)
            return
        call = state.model
        if call is None or call.phase != "requested" or (call.index, call.attempt) != (outcome.index, outcome.attempt):
            return
        if outcome.reply is None:
            yield self._failed(outcome)
            return
        reply, message = outcome.reply, outcome.reply.message
        content = message.content
        bill = settle(reply, state.budget.reserve, self._price(state.agent, call.model, reply.model))
        yield ev.ModelResponded(
            index=outcome.index,
            attempt=outcome.attempt,
            finish=reply.finish_reason,
            truncated=reply.truncated,
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
            model=reply.model,
            request_id=reply.request_id,
            cached_tokens=reply.usage.cached_tokens,
            assumed_tokens=bill.assumed_tokens,
            price=bill.price,
            cost=bill.cost,
            text=[dict(part) for part in content] if isinstance(content, tuple) else content,
            calls=tuple(
                ev.AskedCall(asked.name, asked.arguments, asked.provider_id, dict(asked.extra) or None)
                for asked in message.tool_calls
            ),
            reasoning=message.reasoning,
            reasoning_field=message.reasoning_field,
            refusal=message.refusal,
            extra=dict(message.extra) or None,
        )

    def _summarised(self, state: RunState, outcome: Replied) -> Iterator[object]:
        compaction = state.turn.compaction if state.turn is not None else None
        if compaction is None or compaction.phase != "requested" or compaction.attempt != outcome.attempt:
            return
        reply, error = outcome.reply, outcome.error
        text = "" if reply is None else text_of(reply.message.content).strip()
        if reply is None and error is None:
            yield ev.SummaryFailed(outcome.attempt, "shutdown")
        elif reply is None or not text:
            again, asked = None, error.retry_after if isinstance(error, ModelError) else None
            if error is not None:
                again = retry_at(self._now(), outcome.attempt, asked, self._random())
            message = "the reply held no text" if error is None else f"{type(error).__name__}: {error}"
            yield ev.SummaryFailed(outcome.attempt, "error", again, message[:2000])
        else:
            bill = settle(reply, None, self._price(state.agent, compaction.model, reply.model))
            yield ev.ContextCompacted(
                compaction.kept,
                compaction.dropped,
                compaction.messages,
                outcome.attempt,
                reply.usage.input_tokens,
                reply.usage.output_tokens,
                reply.model,
                bill.cost,
                text,
            )

    def _failed(self, outcome: Replied) -> ev.ModelFailed | ev.ModelLost:
        error = outcome.error
        if error is None:
            return ev.ModelLost(outcome.index, outcome.attempt, "shutdown")
        if not isinstance(error, ModelError):
            return ev.ModelFailed(outcome.index, outcome.attempt, message=described(error)[:2000])
        again = None
        if error.retryable:
            again = retry_at(self._now(), outcome.attempt, error.retry_after, self._random())
        return ev.ModelFailed(outcome.index, outcome.attempt, again, error.status, str(error)[:2000])

    def _acted(self, state: RunState, outcome: Acted) -> Iterator[object]:
        action = state.action(outcome.action)
        if action is None or outcome.late or action.phase is not Phase.STARTED or action.attempt != outcome.attempt:
            yield from self._late(state, action, outcome)
        elif outcome.result == "returned" and outcome.timer is not None:
            until = outcome.timer.moment(self._now())
            set_now = ev.TimerSet(outcome.action, outcome.attempt, until, outcome.timer.text)
            yield from self._returned(state, _receipt(action, outcome, "returned"), outcome.update, set_now)
        elif outcome.result == "returned":
            yield from self._returned(state, _receipt(action, outcome, "returned"), outcome.update)
        elif outcome.result == "tool_error" and not action.doubted:
            yield ev.ActionReceipted(outcome.action, outcome.attempt, "error", "tool_error", outcome.text)
        else:
            cause = self._cause(state, outcome)
            again = self._again(outcome, cause)
            yield ev.ActionInterrupted(outcome.action, outcome.attempt, cause, again, outcome.text)

    def _returned(
        self,
        state: RunState,
        receipt: ev.ActionReceipted,
        update: Mapping[str, Value],
        instead: ev.TimerSet | None = None,
    ) -> Iterator[object]:
        """A result, and what it changes in the named state: all that it wrote, or, where something misfits, nothing."""
        if update:
            try:
                ops = changes(self._keys(state.agent), state.named, update)
            except ArgumentsError as error:
                said = wording.state_refused(str(receipt.text), str(error))
                yield evolve(receipt, outcome="error", text=said, parts=None)
                return
            yield ev.StateChanged("action", receipt.action, ops)
        yield receipt if instead is None else instead

    def _cause(self, state: RunState, outcome: Acted) -> Cause:
        """Why there is no outcome: who cancels an attempt is known here, and not where it is made."""
        assert outcome.result != "returned"
        if outcome.result != "cancelled" or state.cancel is not None:
            return outcome.result
        if state.control.overdue:
            return "deadline"
        return "shutdown" if self._draining() else outcome.result

    def _again(self, outcome: Acted, cause: str) -> int | None:
        """When another attempt may be made; None for at once, if at all."""
        if outcome.retry is not None and cause in _WAITED_FOR:
            wait = outcome.retry.wait(outcome.attempt, self._random())
            return self._now() + int(max(wait, min(outcome.retry_after or 0.0, _LONGEST_ASKED)) * SECOND)
        if cause != "transient":
            return None
        return retry_at(self._now(), outcome.attempt, outcome.retry_after, self._random())

    def _late(self, state: RunState, action: Action | None, outcome: Acted) -> Iterator[object]:
        """A late success settles a doubt, and spares a retry; anything else late is a note."""
        ok = outcome.result == "returned"
        open_still = action is not None and action.phase in {Phase.UNRESOLVED, Phase.INTERRUPTED, Phase.REPEAT}
        if action is not None and open_still and action.attempt == outcome.attempt and ok:
            yield from self._returned(state, _receipt(action, outcome, "late"), outcome.update)
        elif action is not None and open_still and action.attempt == outcome.attempt and outcome.result == "tool_error":
            yield ev.ActionReceipted(outcome.action, outcome.attempt, "error", "late", outcome.text)
        else:
            yield ev.ActionReturnedLate(outcome.action, outcome.attempt, "ok" if ok else "error", outcome.text)

    def _answered(self, state: RunState, outcome: Answered) -> Iterator[object]:
        action = state.action(outcome.action)
        if action is None or action.phase is not Phase.INTERRUPTED or action.attempt != outcome.attempt:
            return
        if outcome.answer == "unknown" and self._draining():
            # It may have been cut off with the runtime: the next one asks again, as it would after a kill.
            return
        if outcome.answer == "found":
            yield from self._returned(state, _receipt(action, outcome, "query"), outcome.update)
        else:
            yield ev.ActionQueried(outcome.action, outcome.attempt, outcome.answer, outcome.text)


def _receipt(
    action: Action, outcome: Acted | Answered, evidence: Literal["returned", "late", "query"]
) -> ev.ActionReceipted:
    text, more = wording.told(action, outcome.text), outcome.shown
    receipt = ev.ActionReceipted(outcome.action, outcome.attempt, "ok", evidence, text, outcome.value)
    if more is None:
        return receipt
    parts: list[Value] = [dict(part) for part in more.parts]
    if parts and (note := wording.told(action, "")):
        parts.insert(0, {"type": "text", "text": note})
    return evolve(receipt, parts=parts or None, artifact=more.artifact, cut=more.cut)


def unrecordable(outcome: Outcome, error: InvalidValue) -> Outcome:
    """The same outcome without its content, where that cannot be journaled: what is known must not be lost with it."""
    said = f"the result cannot be journaled: {error}"[:500]
    match outcome:
        case Replied():
            return Replied(outcome.index, outcome.attempt, None, ModelError(f"reply refused: {said}"))
        case Advised(step):
            if isinstance(step, Authorize):
                return evolve(outcome, event=ev.ActionDenied(step.action, "runtime", reason=said))
            return evolve(outcome, event=ev.ToolsBound(step.index, (), failed=True, error=said))
        case Acted() | Answered():
            return evolve(outcome, text=f"[{said}]", value=None, update={}, shown=None)
        case Hooked():
            return evolve(outcome, done=(), updates=(), failed=f"hooks: {said}")
