"""What hooks did, as an event."""

from __future__ import annotations

from attrs import frozen

from trouper.core.hook_ops import Op, Point
from trouper_journal import Content, Plain, event


@frozen(slots=False, repr=False, eq=False)
class HookDone(Plain):
    """What one hook asked for.

    Attributes:
        hook: Its name.
        ops: What it asked for, in order.
        error: What went wrong in it, where it was called about an error: then it counts as having said nothing.
    """

    hook: str
    ops: tuple[Op, ...] = ()
    error: str | None = None


@event("hook.applied", schema=1, driver=True)
@frozen(slots=False, repr=False, eq=False)
class HookApplied(Plain):
    """The hooks of one point were called, once, and this came of it; a replay does not call them.

    Attributes:
        point: Where in the run.
        subject: What it was about: ``<model index>``, ``<model index>.<call index>``, or ``<model index>.<attempt>``.
        failed: The run fails because of it.
        model_calls: How many models hooks asked themselves.
        input_tokens: Tokens of those requests, as far as providers told.
        output_tokens: Tokens of those replies, as far as providers told.
        unknown: How many of those replies told no tokens.
        cost: What they cost in nano-units, as far as there are prices.
        unpriced: How many of them have no price.
        replied: A hook answered for the model.
        done: What each hook asked for, in the order called; those that asked for nothing are left out.
        reason: Why the run fails.
        overtaken: The run had moved on meanwhile: nothing that they asked for is done, and only what they spent counts.
    """

    point: Point
    subject: str
    failed: bool = False
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    unknown: int = 0
    cost: int = 0
    unpriced: int = 0
    replied: bool = False
    overtaken: bool = False
    done: Content[tuple[HookDone, ...]] = ()
    reason: Content[str] = ""
