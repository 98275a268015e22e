"""Making attempts at calls of tools, and waiting for what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import trio

from ._attempt import Attempt, Target, ToolHost
from ._context import ToolContext
from ._outcomes import Failed, ToolReturn
from ._redact import NO_SECRETS, Redactor
from ._tool import Tool
from ._tool_result import returned

T = TypeVar("T")


def tool_attempt(
    tool: Tool[..., object],
    arguments: Mapping[str, object],
    *,
    context: ToolContext,
    secrets: Mapping[str, str],
    host: ToolHost,
    done: Callable[[ToolReturn | None], None],
) -> Attempt[ToolReturn]:
    """An attempt at a call, to be started with its `Attempt.run` in the host's nursery.

    A timed-out async tool is cancelled and has ``host.grace`` seconds to clean up (an ``await`` in its ``finally``
    needs a shielded scope, as everywhere in Trio); how it ends in that time is the outcome. A timed-out sync tool
    goes on in its thread, and the outcome is ``timeout`` at once. Waiting for a free thread does not count.

    Args:
        tool: The tool.
        arguments: As `Tool.validate` gave them.
        context: The call; its deadline is brought forward to the tool's own time limit.
        secrets: Value of the secret for each parameter that gets one.
        host: Nursery, clock and limits.
        done: Told the outcome, once, in the event loop; must not block. See `Attempt`.
    """
    redactor = Redactor(secrets.values()) if secrets else NO_SECRETS
    missing = [name for name in tool.signature.secrets if name not in secrets]
    options = tool.options
    return Attempt(
        target=Target(tool.fn, tool.signature, arguments, secrets),
        name=tool.name,
        context=context,
        host=host,
        seconds=options.timeout,
        redactor=redactor,
        accept=lambda result: returned(result, redactor),
        done=done,
        late=lambda outcome: host.on_late(context, outcome),
        retry_on=() if options.retry is None else options.retry.on,
        refused=_unavailable(options.secrets[missing[0]]) if missing else None,
    )


def _unavailable(secret: str) -> Failed:
    return Failed("tool_error", f"secret {secret} is not available; nothing was run")


async def call_tool(
    tool: Tool[..., object],
    arguments: Mapping[str, object],
    *,
    context: ToolContext,
    secrets: Mapping[str, str],
    host: ToolHost,
) -> ToolReturn:
    """Make one attempt at a call, and wait for its outcome; see `tool_attempt`.

    **On cancellation** the tool is told to stop and has ``host.grace`` seconds to end. Then this function *returns* the
    outcome instead of raising, so that a receipt is not lost; the caller's scope stays cancelled and raises at its
    next checkpoint. Only where the tool was not started yet does it raise.

    Returns:
        The outcome. No exception of the tool's escapes but KeyboardInterrupt, SystemExit and their like.

    Raises:
        trio.Cancelled: Cancelled before the tool started: nothing was run.
    """
    waiting = Waiting[ToolReturn]()
    attempt = tool_attempt(tool, arguments, context=context, secrets=secrets, host=host, done=waiting.take)
    return await waiting.wait_for(attempt)


class Waiting(Generic[T]):
    """Waits for the outcome of one attempt, and loses it to no cancellation."""

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._told = False
        self._outcome: T | Failed | None = None

    def take(self, outcome: T | Failed | None) -> None:
        """Take the outcome."""
        self._told, self._outcome = True, outcome
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    async def wait_for(self, attempt: Attempt[T]) -> T | Failed:
        """Start an attempt and wait for its outcome; see `call_tool`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        attempt.host.nursery.start_soon(attempt.run, name=f"tool {attempt.name} {attempt.context.action}")
        await self._sleep()
        if not self._told:
            attempt.abort()
            with trio.CancelScope(shield=True):
                await self._sleep()
        outcome = self._outcome
        if outcome is None or (isinstance(outcome, Failed) and outcome.kind == "not_begun"):
            await trio.lowlevel.checkpoint()
        return outcome or Failed("cancelled", "it was ended by an exit; whether it took effect is unknown")

    async def _sleep(self) -> None:
        """Wait until the outcome is told, or until the wait is cancelled: then return all the same.

        Waking up by ourselves leaves the scope cancelled and loses nothing: Cancelled would carry no outcome.
        """
        if self._told:
            return
        task = self._task = trio.lowlevel.current_task()

        def interrupted(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._task = None
            trio.lowlevel.reschedule(task)
            return trio.lowlevel.Abort.FAILED

        await trio.lowlevel.wait_task_rescheduled(interrupted)
