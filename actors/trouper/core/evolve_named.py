"""The fold of a run's named state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from trouper.core.folding import advanced
from trouper.core.state import Halt, RunState, known
from trouper.core.state_events import StateChanged, StateOp, StateRefused
from trouper_journal import Erased, Value


def applied(values: Mapping[str, Value], ops: Iterable[StateOp]) -> Mapping[str, Value]:
    """The values after these changes; the values themselves are never changed."""
    after = dict(values)
    for change in ops:
        old, new = after.get(change.key), change.value
        if change.op == "append":
            after[change.key] = [*old, new] if isinstance(old, list) else [new]
        elif change.op == "merge":
            after[change.key] = {**(old if isinstance(old, dict) else {}), **(new if isinstance(new, dict) else {})}
        else:
            after[change.key] = new
    return after


def with_defaults(values: Mapping[str, Value], defaults: Mapping[str, Value] | Erased | None) -> Mapping[str, Value]:
    """The values, and the defaults of keys that have none."""
    return values if defaults is None or isinstance(defaults, Erased) else {**defaults, **values}


def _changed(state: RunState, event: StateChanged) -> RunState:
    erased = state.erased or isinstance(event.ops, Erased)
    return advanced(state, named=applied(state.named, known(event.ops, ())), erased=erased)


def _refused(state: RunState, event: StateRefused) -> RunState:
    return advanced(state, halt=Halt("state", known(event.message, "")))


STATE_STEPS: dict[type, Callable[..., RunState]] = {StateChanged: _changed, StateRefused: _refused}
