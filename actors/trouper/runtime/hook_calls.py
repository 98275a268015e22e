"""Calls an agent's hooks at one point, one after the other, and checks what each asks for."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

import attrs
import trio
from attrs import define, field

from trouper._clock import Clock
from trouper.agent import Agent
from trouper.core.conversation import AI, Message, ToolMessage
from trouper.core.hook_events import HookDone
from trouper.core.hook_ops import (
    ALLOWED,
    LAST,
    Answer,
    Drop,
    Fail,
    Insert,
    MessageOp,
    Op,
    Point,
    Replace,
    Reply,
    SetArguments,
    Spend,
    Update,
    UseModel,
)
from trouper.core.hooking import broken_pairs, calls_of, shown
from trouper.core.state import RunState
from trouper.errors import InvalidValue, TrouperError
from trouper.hooks import Hook, points_of
from trouper.runtime.hook_views import Scene
from trouper.runtime.protocol import Hooked
from trouper.runtime.tasks import check_message
from trouper.tools import to_value
from trouper.tools._outcomes import described, is_fatal, our_cancellation, outcome_types
from trouper_journal import Printable, Value


class HookError(TrouperError):
    """A hook raised, took too long, or asked for what cannot be done."""


@define(eq=False, repr=False)
class HookCalls(Printable):
    """The hooks of one point, being called.

    Attributes:
        messages: The whole conversation, as nothing was done to it.
        ops: What was done to it, now and before.
    """

    point: Point
    subject: str
    agent: Agent
    state: RunState
    clock: Clock
    messages: tuple[Message, ...]
    ops: list[MessageOp] = field(factory=list)
    done: list[HookDone] = field(factory=list)
    updates: list[tuple[str, Mapping[str, Value]]] = field(factory=list)
    _scene: Scene = field(init=False)
    _seen: dict[str, Message] = field(init=False, factory=dict)

    async def make(self) -> Hooked:
        """Call them; what came of it."""
        self.ops = list(self.state.hooks.ops)
        self._scene = Scene(self.point, self.subject, self.agent, self.state)
        failed = ""
        for hook in self.agent.hooks:
            if self.point not in points_of(hook):
                continue
            try:
                ops = await self._one(hook)
            except HookError as error:
                if self.point != "on_error":
                    failed = f"hook {hook.name}, {self.point} {self.subject}: {error}"
                    break
                self.done.append(HookDone(hook.name, (), str(error)))
                continue
            if ops:
                self.updates += [(hook.name, op.values) for op in ops if isinstance(op, Update)]
                self.done.append(HookDone(hook.name, tuple(op for op in ops if not isinstance(op, Update))))
            if (fail := next((op for op in ops if isinstance(op, Fail)), None)) is not None:
                failed = fail.reason or f"hook {hook.name} failed the run"
            if failed or any(self._ends(op) for op in ops):
                break
        chain = self.state.chain
        return Hooked(self.point, self.subject, chain, tuple(self.done), tuple(self.updates), failed)

    def _ends(self, op: Op) -> bool:
        return isinstance(op, LAST) or (isinstance(op, Answer) and self.point == "before_tool")

    async def _one(self, hook: Hook) -> list[Op]:
        before = shown(self.messages, self.ops)
        given = self._scene.given(before)
        method = cast("Callable[..., object]", getattr(hook, self.point))
        asked = await self._within(hook, method, given)
        kept = list(self.ops)
        self._seen = {message.id: message for message in before}
        try:
            ops = [self._checked(op, hook) for op in _listed(asked)]
            wrong = broken_pairs(shown(self.messages, self.ops)) - broken_pairs(before)
        except HookError:
            self.ops = kept
            raise
        except Exception as error:
            # What it returned is the user's: looking at it may raise anything.
            self.ops = kept
            raise HookError(f"what it returned cannot be meant: {described(error)}"[:2000]) from error
        if wrong:
            self.ops = kept
            raise HookError(f"it would leave a history that no model takes: {'; '.join(sorted(wrong))}")
        for op in ops:
            self._scene.heed(op)
        return ops

    async def _within(self, hook: Hook, method: Callable[..., object], given: Sequence[object]) -> object:
        """Call a method within its time, wherever its kind has to run."""
        asked: object = None
        with self.clock.timeout(hook.timeout) as limit:
            try:
                if inspect.iscoroutinefunction(method):
                    asked = method(*given)
                else:
                    asked = await trio.to_thread.run_sync(method, *given, abandon_on_cancel=True)
                if inspect.isawaitable(asked):
                    asked = await cast("Awaitable[object]", asked)
            except Exception as error:
                # What it says of being stopped is no failure of its own.
                await trio.lowlevel.checkpoint_if_cancelled()
                raise HookError(f"it raised {described(error)}"[:2000]) from error
            except outcome_types() as error:
                if is_fatal(error):
                    raise
                if (ours := our_cancellation(error)) is not None:
                    raise ours from None
                raise HookError(f"it let {type(error).__name__} escape, of a cancellation of its own") from error
        if limit.cancelled_caught:
            raise HookError(f"it took longer than {hook.timeout:g} s")
        return asked

    # ---- what was asked for

    def _checked(self, asked: object, hook: Hook) -> Op:
        if not isinstance(asked, ALLOWED[self.point]):
            raise HookError(f"it returned {asked!r}"[:200] + f", which has no meaning in {self.point}")
        op = cast("Op", asked)
        try:
            match op:
                case Drop() | Insert() | Replace():
                    return self._edit(op)
                case UseModel(name) if name and name not in self.agent.cast:
                    names = ", ".join(self.agent.cast) or "none"
                    raise HookError(f"there is no model called {name!r} (further models: {names})")
                case SetArguments(arguments):
                    return SetArguments(_mapping(arguments, "arguments"))
                case Update(values):
                    return Update(_mapping(values, "state"))
                case Reply(message):
                    check_message(message, "reply")
                    if not isinstance(message, AI):
                        raise HookError("its reply is no AI message")
                case UseModel(reason=told) | Answer(text=told) | Fail(reason=told):
                    _check_text(told, type(op).__name__)
                case Spend():
                    _check_spend(op)
        except InvalidValue as error:
            raise HookError(f"{type(op).__name__} of {hook.name}: {error}") from error
        return op

    def _edit(self, op: MessageOp) -> MessageOp:
        match op:
            case Drop(ids, through):
                unknown = [one for one in (*ids, *([through] if through else [])) if one not in self._seen]
                if unknown:
                    raise HookError(f"no message {unknown[0]!r} is shown to the model, so that it cannot be dropped")
            case Insert():
                check_message(op.message, "message")
                op = self._inserted(op, self._seen)
            case Replace():
                check_message(op.message, "message")
                op = _replaced(op, self._seen)
        self.ops.append(op)
        if isinstance(op, Replace):
            # Its place is the same: a hook may replace each of very many.
            self._seen[op.message.id] = op.message
        else:
            self._seen = {message.id: message for message in shown(self.messages, self.ops)}
        return op

    def _inserted(self, op: Insert, seen: dict[str, Message]) -> Insert:
        taken = {message.id for message in self.messages} | {
            done.message.id for done in self.ops if isinstance(done, Insert)
        }
        name = op.message.id or f"{self.state.run}/hook/{len(self.ops)}"
        if name in taken:
            raise HookError(f"there is a message {name!r} already")
        after = next(reversed(seen), "") if op.after is None else op.after
        if after and after not in seen:
            raise HookError(f"no message {after!r} is shown to the model, so that nothing can stand behind it")
        return Insert(attrs.evolve(op.message, id=name), after)


def _replaced(op: Replace, seen: Mapping[str, Message]) -> Replace:
    old = seen.get(op.message.id)
    if old is None:
        raise HookError(f"no message {op.message.id!r} is shown to the model, so that it cannot be replaced")
    same = type(old) is type(op.message) and calls_of(old) == calls_of(op.message)
    if isinstance(old, ToolMessage) and isinstance(op.message, ToolMessage):
        same = old.call_id == op.message.call_id
    if not same:
        raise HookError(f"message {old.id!r} must stay of its kind, with its calls")
    return op


def _check_text(told: object, place: str) -> None:
    if not isinstance(told, str):
        raise InvalidValue(place, f"{type(told).__name__} is not text")


def _check_spend(op: Spend) -> None:
    _check_text(op.model, "model")
    for tokens in (op.input_tokens, op.output_tokens):
        number: object = tokens
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
            raise InvalidValue("tokens", f"{number!r} is not a whole number of at least 0, nor None")


def _listed(asked: object) -> list[object]:
    if asked is None:
        return []
    return list(asked) if isinstance(asked, Sequence) and not isinstance(asked, str) else [asked]


def _mapping(given: object, place: str) -> dict[str, Value]:
    value = to_value(given)
    if not isinstance(value, dict):
        raise InvalidValue(place, f"{type(given).__name__} is not a mapping")
    return value
