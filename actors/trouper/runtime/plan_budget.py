"""Plans what is spent: reckons a request before it is sent, and asks the ledger where others spend too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import attrs
from attrs import frozen

from trouper.agent import Agent
from trouper.core import events as ev
from trouper.core import steps as st
from trouper.core import wording
from trouper.core.budget import Refusal, Reserve
from trouper.core.conversation import Message
from trouper.core.decide_children import waits_for_child
from trouper.core.evolve import evolve
from trouper.core.limits import Limits
from trouper.core.prices import ASSUMED_OUTPUT, estimate
from trouper.core.spending import bound, bound_in_all
from trouper.core.state import RunState
from trouper.runtime.desk import Desk
from trouper.runtime.ledger import BELOW, Asked, Ledger
from trouper.runtime.plan_output import offered
from trouper_journal import Plain

_NO_LIMITS = Limits()


@frozen(repr=False, eq=False)
class SpendPlanner(Plain):
    """Plans the spending of one run.

    Attributes:
        agent: Today's definition; None where the runtime has no agent of that name.
    """

    desk: Desk
    agent: Agent | None

    def counts(self, state: RunState) -> bool:
        """Whether more than the rules must be asked before something is spent."""
        return (state.limits is not None and state.limits.reckons) or self._has_kin(state)

    def _has_kin(self, state: RunState) -> bool:
        if BELOW in state.run or any(map(waits_for_child, state.batch)):
            return True
        return self.desk.ledgers.known(state.run) is not None

    async def request(
        self, state: RunState, event: ev.ModelRequested, told: Callable[[], Awaitable[Sequence[Message]]]
    ) -> ev.ModelRequested | ev.BudgetRefused | ev.BudgetWarned | None:
        """The request with its reserve, or what comes before it or in its place; None: ask again when rung."""
        ledger = await self.desk.ledgers.of(state) if self._has_kin(state) else None
        if ledger is not None and event.attempt == 1 and not event.closing:
            running = ledger.running_out(state.run, state.budget.warned_above, self.desk.clock.now())
            if running is not None:
                owner, resource, limit, spent = running
                told_so = wording.running_out(resource, limit, spent, shared=True)
                return ev.BudgetWarned(resource, limit, spent, told_so, owner)
        left = _left(state) if ledger is None else ledger.left(state.run)
        if left != (None, None) and self.agent is not None:
            tokens = estimate(await told(), offered(self.agent, closing=event.closing))
            reserve = self._reserve(tokens, left, self.agent.config.max_tokens, event.model)
            if reserve.price is None and left[1] is not None:
                refusal = _cost_limit(state) if ledger is None else ledger.owner_of_cost(state.run)
                # A last request comes on top of the run's own limits, priced or not.
                if refusal is not None and not (event.closing and refusal.owner == state.run):
                    return _refused(refusal)
            event = attrs.evolve(event, reserve=reserve)
        if not event.closing and (refusal := _own(state, event)) is not None:
            return _refused(refusal)
        if ledger is None:
            return event
        asked = Asked(state.run, bound(evolve(state, event)), "model", extra=event.closing)
        verdict = await self._ask(ledger, asked)
        if isinstance(verdict, Refusal):
            return _refused(verdict)
        return event if verdict is None else None

    def _reserve(self, tokens: int, left: tuple[int | None, int | None], output: int | None, model: str) -> Reserve:
        """An estimate of the input, and the most that the reply may have: what is left of it, where nobody said."""
        assert self.agent is not None
        price = self.desk.price(self.agent.name, model)
        if output is None:
            output = ASSUMED_OUTPUT
            if left[0] is not None:
                output = min(output, left[0] - tokens)
            if left[1] is not None and price is not None and price.output:
                output = min(output, (left[1] - price.cost(tokens, 0)) // price.output)
            output = max(output, 1)
        if price is None:
            return Reserve(tokens, output)
        return Reserve(tokens, output, price.cost(tokens, output), price.id)

    async def call(self, state: RunState, step: st.StartAction) -> tuple[object, ...]:
        """What stands in the place of a call's start where the tree cannot afford it; nothing where it can."""
        action = state.action(step.action)
        if action is None or action.attempt > 0 or not self._has_kin(state):
            return ()
        ledger = await self.desk.ledgers.of(state)
        if ledger is None:
            return ()
        after = bound(evolve(state, ev.ActionStarted(step.action, step.attempt)))
        refusal = await self._ask(ledger, Asked(state.run, after, "tool", action.tool))
        if not isinstance(refusal, Refusal):
            return ()
        refused = _refused(refusal, step.action)
        if refusal.tool is None:
            return (refused,)
        text = wording.tool_limit(refusal.tool, refusal.limit)
        return (refused, ev.ActionReceipted(step.action, 0, "error", "not_started", text))

    async def _ask(self, ledger: Ledger, asked: Asked) -> Refusal | Literal["later"] | None:
        refusal = ledger.ask(asked, self.desk.clock.now())
        if not isinstance(refusal, Refusal) or refusal.owner == asked.run:
            return refusal
        # Its limit may have been raised while it was out of memory.
        await ledger.refresh(refusal.owner)
        return ledger.ask(asked, self.desk.clock.now())

    async def asks_again(self, state: RunState) -> tuple[object, ...]:
        """The word that a limit of a run above this one was raised since something was refused by it."""
        refusal = state.budget.refused
        if refusal is None or refusal.owner == state.run or state.ended:
            return ()
        ledger = await self.desk.ledgers.of(state)
        if ledger is None:
            return ()
        await ledger.refresh(refusal.owner)
        if not ledger.has_more(refusal):
            return ()
        return (ev.BudgetRaised(by=ev.Principal("budget", "policy", "runtime"), owner=refusal.owner),)

    def own(self, state: RunState, step: st.Refuse | st.Warn) -> object:
        """What the rules themselves find refused, or running out."""
        limits = state.limits or _NO_LIMITS
        spent = step.spent
        if step.resource == "seconds" and state.budget.deadline is not None:
            spent = self.desk.clock.now() - (state.budget.deadline - step.limit)
        if isinstance(step, st.Refuse):
            return ev.BudgetRefused(step.resource, state.run, step.limit, spent, step.action, on_limit=limits.on_limit)
        return ev.BudgetWarned(step.resource, step.limit, spent, wording.running_out(step.resource, step.limit, spent))


def _left(state: RunState) -> tuple[int | None, int | None]:
    """Tokens and nano-units left by the run's own limits; None for no limit."""
    limits, spent = state.limits or _NO_LIMITS, bound_in_all(state)
    return (
        None if limits.max_tokens is None else limits.max_tokens - spent.tokens,
        None if limits.max_cost is None else limits.max_cost - spent.cost,
    )


def _cost_limit(state: RunState) -> Refusal | None:
    limits = state.limits or _NO_LIMITS
    if limits.max_cost is None:
        return None
    return Refusal("cost", state.run, limits.max_cost, bound_in_all(state).cost, None, limits.on_limit, unpriced=True)


def _own(state: RunState, event: ev.ModelRequested) -> Refusal | None:
    """What the run's own limits of tokens and cost say, of itself and its finished sub-agents."""
    limits = state.limits or _NO_LIMITS
    if not limits.reckons:
        return None
    before, after = bound_in_all(state), bound_in_all(evolve(state, event))
    if limits.max_tokens is not None and after.tokens > limits.max_tokens:
        return Refusal("tokens", state.run, limits.max_tokens, before.tokens, None, limits.on_limit)
    if limits.max_cost is not None and after.cost > limits.max_cost:
        return Refusal("cost", state.run, limits.max_cost, before.cost, None, limits.on_limit)
    return None


def _refused(refusal: Refusal, action: str | None = None) -> ev.BudgetRefused:
    return ev.BudgetRefused(
        refusal.resource,
        refusal.owner,
        refusal.limit,
        refusal.spent,
        action,
        refusal.tool,
        refusal.on_limit,
        refusal.unpriced,
    )
