"""What happens to a run's named state: operations, never whole values where less will do."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper_journal import Content, Plain, Value, event


@frozen(slots=False, repr=False, eq=False)
class StateOp(Plain):
    """One change of one key.

    Attributes:
        op: ``set`` to the value; ``append`` it to the list; ``merge`` its entries into the mapping.
        key: Which key.
        value: With what.
    """

    op: Literal["set", "append", "merge"]
    key: str
    value: Value = None


@event("state.changed", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class StateChanged(Plain):
    """The run's named state was changed.

    Attributes:
        source: What changed it: a call's result, a hook, or a sub-agent's result.
        name: Which one: ``<model index>.<call index>``, the hook's point, or the child's run id.
        ops: The changes, in order. What a reducer of the user's own made of a value stands here as ``set``.
    """

    source: Literal["action", "hook", "child"]
    name: str
    ops: Content[tuple[StateOp, ...]] = ()


@event("state.refused", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class StateRefused(Plain):
    """The state that the run was submitted with does not fit its agent's keys: the run fails.

    Attributes:
        message: What does not fit, key by key.
    """

    message: Content[str] = ""
