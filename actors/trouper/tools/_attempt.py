"""One attempt at a call, so that whatever happens in the tool comes back as an outcome.

A tool works in a task of its own in the executor's nursery, within a shielded scope that only its call cancels. So
a tool that does not end can be left behind: the outcome is told, the task stays in the nursery, and what the tool still
brings is told as late. A sync tool's thread cannot be stopped at all; only what waits for it can go. Whoever wants the
outcome is called back: a task that did nothing but wait for it would cost a tenth of a short call.
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
from ._outcomes import NOT_BEGUN, Failed, ToolReturn, failure, is_fatal, outcome_types, told
from ._redact import Redactor
from ._signature import Signature, is_async


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
        places: Bounds the calls, those left behind included; None for no bound.
    """

    nursery: trio.Nursery
    clock: Clock
    limiter: trio.CapacityLimiter | None = None
    grace: float = 5.0
    on_late: Late = _forget
    places: trio.CapacityLimiter | None = None


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
    """One attempt, to be made in a task of its own by `run`.

    Attributes:
        target: What is called.
        name: The tool's name, for threads and tasks.
        context: The call.
        host: Nursery, clock and limits.
        seconds: The time limit; None for none.
        redactor: Masks the call's secrets.
        accept: Makes an outcome of what was returned.
        done: Told the outcome, once. None: nothing is known, because the nursery that it works in has come to its end.
        late: Told what comes after the call was given up.
        retry_on: Errors that are worth another attempt.
        refused: Why nothing shall be run, or None.
    """

    target: Target
    name: str
    context: ToolContext
    host: ToolHost
    seconds: float | None
    redactor: Redactor
    accept: Callable[[object], T]
    done: Callable[[T | Failed | None], None]
    late: Callable[[T | Failed], None]
    retry_on: tuple[type[Exception], ...] = ()
    refused: Failed | None = None
    _begun: bool = field(init=False, default=False)
    _in_loop: bool = field(init=False)
    _placed: bool = field(init=False, default=False)
    _left: bool = field(init=False, default=False)
    _over: bool = field(init=False, default=False)
    _flag: CancelFlag = field(init=False, factory=CancelFlag)
    _scope: trio.CancelScope = field(init=False, factory=trio.CancelScope)
    _ended: trio.Event | None = field(init=False, default=None)
    _outcome: T | Failed | None = field(init=False, default=None)
    _cause: Literal["timeout", "cancelled"] | None = field(init=False, default=None)
    _from_thread: T | Failed | None = field(init=False, default=None)
    _unawaited: object = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._in_loop = is_async(self.target.fn)

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Make the attempt; to be started in the host's nursery.

        Ends when the tool has ended, also where that was left behind; ``done`` is told before.

        Raises:
            trio.Cancelled: The nursery was cancelled before the tool was called, or after it was left behind.
        """
        outcome: T | Failed | None = self.refused
        try:
            with self._scope:
                if outcome is None:
                    permit = await self._admitted()
                    self._begun = True
                    self._scope.shield = True
                    self._adopt_context(self.host, self.seconds)
                    outcome = await self._work(permit)
            if self._scope.cancelled_caught and outcome is None:
                outcome = self._cut_off()
        except outcome_types() as error:
            if not self._begun:
                raise
            outcome, alive = self._judged(error)
            if alive is error:
                raise
            if alive is not None:
                raise alive from None
        finally:
            self._end(outcome)

    def abort(self) -> None:
        """Cancel the call. Its outcome is told within the host's grace, by the tool or, where it does not end, by us.

        If the tool was not called yet, it is not.
        """
        if self._begun:
            self._give_up("cancelled")
        else:
            self._scope.cancel()

    # ---- beginning

    async def _admitted(self) -> _Permit | None:
        """Wait for a place, and for a thread where one is needed: the time limit is for the tool's work alone."""
        if self.host.places is not None:
            await self.host.places.acquire_on_behalf_of(self)
            self._placed = True
        permit: _Permit | None = None
        if not self._in_loop:
            permit = _Permit(self.host.limiter or trio.to_thread.current_default_thread_limiter(), self._thread_ended)
            await permit.acquire()
        try:
            if self.seconds is not None:
                await self._watched(self.seconds)
            # What was waited for may have come, and the call have been cancelled, before this task went on.
            await trio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            if permit is not None:
                permit.release()
            raise
        return permit

    async def _watched(self, seconds: float) -> None:
        """Have the time begin to run before the tool does."""
        self._ended, ready = trio.Event(), trio.Event()
        self.host.nursery.start_soon(self._watch_time, self._ended, ready, seconds, name=f"time limit of {self.name}")
        await ready.wait()

    def _adopt_context(self, host: ToolHost, timeout: float | None) -> None:
        own = None if timeout is None else host.clock.now() + round(timeout * 1e9)
        deadlines = [moment for moment in (self.context.deadline, own) if moment is not None]
        report, masked = self.context._report, self.redactor.value  # noqa: SLF001 -- of this package

        async def progress(value: Value) -> None:
            await report(masked(value))

        self.context = evolve(self.context, deadline=min(deadlines, default=None), cancel=self._flag, report=progress)

    # ---- giving up

    @trio.lowlevel.enable_ki_protection
    async def _watch_time(self, ended: trio.Event, ready: trio.Event, seconds: float) -> None:
        with self.host.clock.timeout(seconds) as limit:
            ready.set()
            await ended.wait()
        if limit.cancelled_caught:
            self._give_up("timeout")

    def _give_up(self, cause: Literal["timeout", "cancelled"]) -> None:
        if self._cause is not None or self._over:
            return
        self._cause = cause
        self._flag.requested = True
        if self._in_loop:
            self._scope.cancel()
        if self._in_loop or cause == "cancelled":
            if self._ended is None:
                self._ended = trio.Event()
            self.host.nursery.start_soon(self._leave_after_grace, self._ended, name=f"grace of {self.name}")
        else:
            self._leave()

    @trio.lowlevel.enable_ki_protection
    async def _leave_after_grace(self, ended: trio.Event) -> None:
        with trio.CancelScope(shield=True), self.host.clock.timeout(self.host.grace):
            await ended.wait()
        self._leave()

    def _leave(self) -> None:
        """Tell that the tool has not ended, unless it has."""
        if self._over or self._outcome is not None:
            return
        self._left = True
        # From here on the nursery's end also ends the wait for the tool, so that a shutdown does not hang on it.
        self._scope.shield = False
        self.done(evolve(self._given_up("and may still take effect"), left=True))

    def _given_up(self, remark: str) -> Failed:
        if self._cause == "timeout":
            return Failed("timeout", f"it timed out {remark}")
        return Failed("cancelled", f"it was cancelled {remark}")

    def _cut_off(self) -> Failed:
        if not self._begun:
            return Failed("not_begun", NOT_BEGUN)
        return self._given_up("while it was working; whether it took effect is unknown")

    # ---- the work

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
        if self._cause == "cancelled":
            # A thread takes a while to start.
            self._from_thread = Failed("not_begun", NOT_BEGUN)
            return
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

    # ---- ending

    def _end(self, outcome: T | Failed | None) -> None:
        """The tool has ended: tell whoever wants to know. Only the first outcome counts."""
        over, self._over = self._over, True
        if self._placed and self.host.places is not None:
            self._placed = False
            self.host.places.release_on_behalf_of(self)
        if self._ended is not None:
            self._ended.set()
        if outcome is not None and self._outcome is None:
            self._outcome = outcome
            (self.late if self._left else self.done)(outcome)
        elif not over and not self._left:
            self.done(None)

    def _judged(self, error: BaseException) -> tuple[Failed | None, BaseException | None]:
        """The outcome that an exception stands for, and what of it must go on.

        Not told apart where it is caught: a part that is kept there refers to itself by its traceback.
        """
        alive, rest = self._parted(error)
        if rest is None:
            return None, alive
        return (None, error) if is_fatal(rest) else (failure(rest, self.redactor, self.retry_on), alive)

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
