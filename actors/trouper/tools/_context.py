"""What a running tool may know about its call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import trio
from attrs import define, field, frozen

from trouper.core.conversation import Value
from trouper_journal import Plain, Printable

from ._results import to_value

Report: TypeAlias = Callable[[Value], Awaitable[None]]
"""Takes a tool's progress to whoever listens."""


NO_STATE: Final[Mapping[str, Any]] = MappingProxyType({})
"""The named state of a run whose agent has no keys."""


async def _nobody_listens(value: Value) -> None:  # noqa: ARG001
    await trio.lowlevel.checkpoint()


@define(eq=False, repr=False)
class CancelFlag(Printable):
    """Tells a tool that its call shall end. Set by the runtime in its thread, read from any."""

    requested: bool = False


@frozen(repr=False, eq=False)
class ToolContext(Plain):
    """The call that a tool is working on; passed to the parameter that is annotated with this class.

    The model neither sees that parameter nor can fill it.

    Attributes:
        run: Id of the run.
        action: Id of the action, ``<run>/<model index>.<call index>``.
        effect_key: Idempotency key of the effect: the same over attempts, restarts and edits by an approver.
        attempt: Number of this attempt, from 1.
        agent: Name of the agent that calls.
        deadline: When this attempt is out of time (ns UTC); None where there is no limit.
        principal: On whose behalf the run works; None where nobody said.
        state: The run's named state as it was when this attempt began, to read only: each look gives a value of its
            own. To write, return a `ToolResult` with an ``update``.
    """

    run: str
    action: str
    effect_key: str
    attempt: int = 1
    agent: str = ""
    deadline: int | None = None
    principal: str | None = None
    state: Mapping[str, Any] = field(default=NO_STATE, repr=False, eq=False)
    _report: Report = field(default=_nobody_listens, repr=False, eq=False)
    _cancel: CancelFlag = field(factory=CancelFlag, repr=False, eq=False)

    @property
    def cancel_requested(self) -> bool:
        """Whether the call was cancelled or ran out of time.

        An async tool is cancelled as Trio cancels; this is for a sync tool, whose thread nobody can stop: a long one
        looks here now and then and ends early.
        """
        return self._cancel.requested

    async def progress(self, value: object) -> None:
        """Report how far the work has come, to whoever listens to the run. It is news, not part of the record.

        A sync tool reports by ``trio.from_thread.run(ctx.progress, value)``.

        Args:
            value: What a tool may return, such as ``{"done": 3, "of": 10}``. Secrets in it are masked.

        Raises:
            InvalidValue: It is not JSON-able.
            trio.Cancelled: The call was cancelled.
        """
        await self._report(to_value(value))
