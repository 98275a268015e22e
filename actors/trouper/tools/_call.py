"""Carrying out one attempt at a call, so that whatever happens in the tool comes back as an outcome.

A tool works in a task of its own in the executor's nursery, within a shielded scope that only its call cancels. So
a tool that does not end can be left behind: the call reports, the task stays in the nursery, and what it still brings
is told to ``on_late``. A sync tool's thread cannot be stopped at all; only what waits for it can go.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Generic, Literal, Protocol, TypeVar, cast

import trio
from attrs import define, evolve, field, frozen

from trouper._clock import Clock
from trouper.core.conversation import Value
from trouper_journal import Plain, Printable
from trouper_journal._errors import InvalidValue

from ._context import CancelFlag, ToolContext
from ._outcomes import Failed, ToolReturn, failure, is_fatal, outcome_types, told
from ._redact import NO_SECRETS, Redactor
from ._signature import Signature, is_async
from ._tool import Tool
from ._tool_result import returned


class Late(Protocol):
    """Takes what a tool brought after its call had been given up."""

    def __call__(self, context: ToolContext, outcome: ToolReturn, /) -> None:
        """Called in the event loop; must not block."""
        ...


def _forget(context: ToolContext, outcome: ToolReturn, /) -> None:
    pass


@frozen(slots=False, repr=False, eq=False)
class ToolHost(Plain):
    """What calls need from whoever makes them.

    Attributes:
        nursery: Where tools' tasks live; it ends only when they have ended, or are cancelled with it.
        clock: Source of time.
        limiter: Bounds the threads of sync tools, those left behind included; None for Trio's default.
        grace: Seconds that a cancelled tool has to end before it is left behind.
        on_late: Told what a tool brings after that.
    """

    nursery: trio.Nursery
    clock: Clock
    limiter: trio.CapacityLimiter | None = None
    grace: float = 5.0
    on_late: Late = _forget


async def call_tool(
    tool: Tool[..., object],
    arguments: Mapping[str, object],
    *,
    context: ToolContext,
    secrets: Mapping[str, str],
    host: ToolHost,
) -> ToolReturn:
    """Make one attempt at a call.

    A timed-out async tool is cancelled and has ``host.grace`` seconds to clean up (an ``await`` in its ``finally``
    needs a shielded scope, as everywhere in Trio); how it ends in that time is the outcome. A timed-out sync tool
    goes on in its thread, and the outcome is ``timeout`` at once. Waiting for a free thread does not count.

    **On cancellation** the tool is told to stop and has ``host.grace`` seconds to end. Then this function *returns* the
    outcome instead of raising, so that a receipt is not lost; the caller's scope stays cancelled and raises at its
    next checkpoint. Only where the tool was not started yet does it raise.

    Args:
        tool: The tool.
        arguments: As `Tool.validate` gave them.
        context: The call; its deadline is brought forward to the tool's own time limit.
        secrets: Value of the secret for each parameter that gets one.
        host: Nursery, clock and limits.

    Returns:
        The outcome. No exception of the tool's escapes but KeyboardInterrupt, SystemExit and their like.

    Raises:
        trio.Cancelled: Cancelled before the tool started: nothing was run.
    """
    redactor = Redactor(secrets.values()) if secrets else NO_SECRETS
    if missing := [name for name in tool.signature.secrets if name not in secrets]:
        await trio.lowlevel.checkpoint()
        return Failed("tool_error", f"secret {tool.options.secrets[missing[0]]} is not available; nothing was run")
    attempt = Attempt(
        target=Target(tool.fn, tool.signature, arguments, secrets),
        name=tool.name,
        context=context,
        redactor=redactor,
        accept=lambda result: returned(result, redactor),
        report=lambda outcome: host.on_late(context, outcome),
        retry_on=() if tool.options.retry is None else tool.options.retry.on,
    )
    return await attempt.make(host, tool.options.timeout)


@frozen(repr=False, eq=False)
class Target(Plain):
    """A function, and what it is called with."""

    fn: Callable[..., object]
    signature: Signature
    arguments: Mapping[str, object] = field(repr=False)
    secrets: Mapping[str, str] = field(repr=False)

    def call(self, context: ToolContext) -> object:
        """Call it."""
        signature = self.signature
        given = {**self.arguments, **{name: self.secrets[name] for name in signature.secrets}}
        if signature.context is not None:
            given[signature.context] = context
        by_position, by_name = signature.split(given)
        return self.fn(*by_position, **by_name)


T = TypeVar("T")


@define(eq=False, repr=False)
class Attempt(Generic[T]):
    """One attempt under way.

    Attributes:
        target: What is called.
        name: The tool's name, for the task.
        context: The call.
        redactor: Masks the call's secrets.
        accept: Makes an outcome of what was returned.
        report: Told the outcome where nobody waits for it any more.
        retry_on: Errors that are worth another attempt.
    """

    target: Target
    name: str
    context: ToolContext
    redactor: Redactor
    accept: Callable[[object], T]
    report: Callable[[T | Failed], None]
    retry_on: tuple[type[Exception], ...] = ()
    _in_loop: bool = field(init=False)
    _left: bool = field(init=False, default=False)
    _flag: CancelFlag = field(init=False, factory=CancelFlag)
    _scope: trio.CancelScope = field(init=False, factory=lambda: trio.CancelScope(shield=True))
    _ended: trio.Event = field(init=False, factory=trio.Event)
    _waiter: trio.lowlevel.Task | None = field(init=False, default=None)
    _outcome: T | Failed | None = field(init=False, default=None)
    _cause: Literal["timeout", "cancelled"] | None = field(init=False, default=None)
    _from_thread: T | Failed | None = field(init=False, default=None)
    _unawaited: object = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._in_loop = is_async(self.target.fn)

    async def make(self, host: ToolHost, seconds: float | None) -> T | Failed:
        """See `call_tool`.

        Args:
            host: Nursery, clock and limits.
            seconds: The time limit; None for none.
        """
        permit = await self._admitted(host)
        self._adopt_context(host, seconds)
        self._start(host.nursery, permit)
        limit: trio.CancelScope | None = None
        if seconds is None:
            await self._wait()
        else:
            with host.clock.timeout(seconds) as limit:
                await self._wait()
        if (outcome := self._known()) is not None:
            return outcome
        self._cause = "timeout" if limit is not None and limit.cancel_called else "cancelled"
        self._flag.requested = True
        if self._in_loop:
            self._scope.cancel()
        if self._in_loop or self._cause == "cancelled":
            with trio.CancelScope(shield=True), host.clock.timeout(host.grace):
                await self._ended.wait()
        if (outcome := self._known()) is not None:
            return outcome
        if self._ended.is_set():
            # By an exit, which ends the nursery and who works in it: of this call nothing is known any more.
            await trio.lowlevel.checkpoint()
        self._left = True
        # From here on the nursery's end also ends the wait for the tool, so that a shutdown does not hang on it.
        self._scope.shield = False
        return evolve(self._given_up("and may still take effect"), left=True)

    def _start(self, nursery: trio.Nursery, permit: _Permit | None) -> None:
        try:
            nursery.start_soon(self._run, permit, name=f"tool {self.name} {self.context.action}")
        except RuntimeError:
            # A nursery that has ended takes no more tasks.
            if permit is not None:
                permit.release()
            raise

    async def _admitted(self, host: ToolHost) -> _Permit | None:
        """Wait for a thread where one is needed: ahead of the time limit, which is for the tool's work."""
        if self._in_loop:
            await trio.lowlevel.checkpoint_if_cancelled()
            return None
        permit = _Permit(host.limiter or trio.to_thread.current_default_thread_limiter(), self._thread_ended)
        await permit.acquire()
        return permit

    def _adopt_context(self, host: ToolHost, timeout: float | None) -> None:
        own = None if timeout is None else host.clock.now() + round(timeout * 1e9)
        deadlines = [moment for moment in (self.context.deadline, own) if moment is not None]
        report, masked = self.context._report, self.redactor.value  # noqa: SLF001 -- of this package

        async def progress(value: Value) -> None:
            await report(masked(value))

        self.context = evolve(self.context, deadline=min(deadlines, default=None), cancel=self._flag, report=progress)

    async def _wait(self) -> None:
        """Wait until the tool has ended, or until the wait is cancelled: then return all the same.

        Waking up by ourselves leaves the scope cancelled and loses nothing: Cancelled would carry no outcome.
        """
        task = self._waiter = trio.lowlevel.current_task()

        def interrupted(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._waiter = None
            trio.lowlevel.reschedule(task)
            return trio.lowlevel.Abort.FAILED

        await trio.lowlevel.wait_task_rescheduled(interrupted)

    def _known(self) -> T | Failed | None:
        return self._outcome

    def _end(self, outcome: T | Failed | None) -> None:
        """The tool has ended: tell who waits, or else that it came late. Only the first outcome counts."""
        if outcome is not None and self._outcome is None:
            self._outcome = outcome
            if self._left:
                self.report(outcome)
        self._ended.set()
        if self._waiter is not None:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None

    def _given_up(self, remark: str) -> Failed:
        if self._cause == "timeout":
            return Failed("timeout", f"it timed out {remark}")
        return Failed("cancelled", f"it was cancelled {remark}")

    @trio.lowlevel.enable_ki_protection
    async def _run(self, permit: _Permit | None) -> None:
        outcome: T | Failed | None = None
        try:
            with self._scope:
                outcome = await self._work(permit)
            if self._scope.cancelled_caught and outcome is None:
                outcome = self._given_up("while it was working; whether it took effect is unknown")
        except outcome_types() as error:
            alive, rest = self._parted(error)
            if rest is not None:
                if is_fatal(rest):
                    raise
                outcome = failure(rest, self.redactor, self.retry_on)
            if alive is not None:
                raise alive from None
        finally:
            self._end(outcome)

    def _parted(self, error: BaseException) -> tuple[BaseException | None, BaseException | None]:
        """What is the nursery's own cancellation, and what is the tool's doing.

        As long as the scope shields, a Cancelled that it did not catch can only come from a scope inside the tool that
        is long closed: nobody waits for it.
        """
        if not self._left:
            return None, error
        if isinstance(error, BaseExceptionGroup):
            return error.split(trio.Cancelled)
        return (error, None) if isinstance(error, trio.Cancelled) else (None, error)

    async def _work(self, permit: _Permit | None) -> T | Failed | None:
        if permit is None:
            result = self.target.call(self.context)
        else:
            await trio.to_thread.run_sync(
                self._in_thread,
                abandon_on_cancel=True,
                limiter=cast("trio.CapacityLimiter", permit),
                thread_name=f"tool {self.name}",
            )
            if self._from_thread is not None:
                return self._from_thread
            result = self._unawaited
            self._in_loop = True
            if self._flag.requested:
                self._scope.cancel()
        return self._accepted(await result if inspect.isawaitable(result) else result)

    def _in_thread(self) -> None:
        try:
            result = self.target.call(self.context)
            if inspect.isawaitable(result):
                # A wrapper hid an async function: only the loop can await what it gave.
                self._unawaited = result
            else:
                self._from_thread = self._accepted(result)
        except outcome_types() as error:
            if is_fatal(error):
                raise
            self._from_thread = failure(error, self.redactor, self.retry_on)

    def _thread_ended(self) -> None:
        if self._from_thread is not None:
            self._end(self._from_thread)

    def _accepted(self, result: object) -> T | Failed:
        try:
            return self.accept(result)
        except InvalidValue as error:
            return Failed("exception", told(f"it returned what cannot be journaled: {error}", self.redactor))


@define(eq=False, repr=False)
class _Permit(Printable):
    """A place among the threads, taken before the time limit starts to count.

    It speaks `trio.CapacityLimiter`'s protocol, whose release Trio calls in the loop when the thread has really ended,
    also where nobody waits for it any more.
    """

    limiter: trio.CapacityLimiter
    on_end: Callable[[], None]

    async def acquire(self) -> None:
        await self.limiter.acquire_on_behalf_of(self)

    async def acquire_on_behalf_of(self, borrower: object) -> None:  # noqa: ARG002
        await trio.lowlevel.cancel_shielded_checkpoint()

    def release_on_behalf_of(self, borrower: object) -> None:  # noqa: ARG002
        self.release()
        self.on_end()

    def release(self) -> None:
        self.limiter.release_on_behalf_of(self)
