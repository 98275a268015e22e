"""From what hooks asked for to what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from trouper.core import events as ev
from trouper.core.conversation import AI
from trouper.core.decide import decide
from trouper.core.evolve_named import applied
from trouper.core.hook_ops import Reply, Spend
from trouper.core.prices import Price
from trouper.core.state import RunState
from trouper.core.steps import RunHook
from trouper.errors import ArgumentsError
from trouper.runtime.protocol import Hooked
from trouper.tools import StateKeys, changes

PriceOf: TypeAlias = Callable[[str], Price | None]
"""The price of a model, by its name."""


def hooked(state: RunState, outcome: Hooked, keys: StateKeys, price: PriceOf) -> Iterator[object]:
    """The events; what was spent alone where the run has moved on: the hooks are called anew if they still are due."""
    due = any(
        isinstance(step, RunHook) and (step.point, step.subject) == (outcome.point, outcome.subject)
        for step in decide(state)
    )
    # A message that came while they worked is one that they have not seen.
    if not due or outcome.chain != state.chain:
        spent = tuple(
            attrs.evolve(done, ops=asked)
            for done in outcome.done
            if (asked := tuple(op for op in done.ops if isinstance(op, Spend)))
        )
        if spent:
            yield attrs.evolve(_event(attrs.evolve(outcome, done=spent, failed=""), price), overtaken=True)
        return
    try:
        written = list(_written(state, outcome, keys))
    except ArgumentsError as error:
        if outcome.point != "on_error":
            failed = f"hook at {outcome.point} {outcome.subject}, state: {error}"
            yield _event(attrs.evolve(outcome, failed=failed), price)
            return
        written, note = [], ev.HookDone("state", (), str(error))
        outcome = attrs.evolve(outcome, done=(*outcome.done, note))
    yield _event(outcome, price)
    if outcome.failed:
        return
    yield from written
    reply = next((op for done in outcome.done for op in done.ops if isinstance(op, Reply)), None)
    if reply is not None:
        yield _responded(outcome, reply.message)


def _event(outcome: Hooked, price: PriceOf) -> ev.HookApplied:
    ops = [op for done in outcome.done for op in done.ops]
    spent = [op for op in ops if isinstance(op, Spend)]
    costs = [_cost(op, price(op.model)) for op in spent]
    return ev.HookApplied(
        point=outcome.point,
        subject=outcome.subject,
        failed=bool(outcome.failed),
        model_calls=len(spent),
        input_tokens=sum(op.input_tokens or 0 for op in spent),
        output_tokens=sum(op.output_tokens or 0 for op in spent),
        unknown=sum(op.input_tokens is None and op.output_tokens is None for op in spent),
        cost=sum(cost or 0 for cost in costs),
        unpriced=costs.count(None),
        replied=any(isinstance(op, Reply) for op in ops),
        done=outcome.done,
        reason=outcome.failed,
    )


def _cost(spent: Spend, price: Price | None) -> int | None:
    if price is None or spent.input_tokens is None or spent.output_tokens is None:
        return None
    return price.cost(spent.input_tokens, spent.output_tokens)


def _written(state: RunState, outcome: Hooked, keys: StateKeys) -> Iterator[ev.StateChanged]:
    named = state.named
    for hook, values in outcome.updates:
        ops = changes(keys, named, values)
        named = applied(named, ops)
        yield ev.StateChanged("hook", f"{outcome.point} {outcome.subject} {hook}", ops)


def _responded(outcome: Hooked, message: AI) -> ev.ModelResponded:
    content = message.content
    return ev.ModelResponded(
        index=int(outcome.subject.partition(".")[0]),
        attempt=0,
        finish="hook",
        input_tokens=0,
        output_tokens=0,
        cost=0,
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
