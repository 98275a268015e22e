"""What the hooks of one point are shown."""

from __future__ import annotations

from attrs import define, field

from trouper.agent import Agent
from trouper.core.conversation import AI, Message, Usage
from trouper.core.hook_ops import Answer, Op, Point, SetArguments
from trouper.core.state import RunState
from trouper.errors import ArgumentsError
from trouper.hooks import Call, CallResult, ModelFailure, View
from trouper.tools import parse_arguments, view
from trouper_journal import Printable


@define(eq=False, repr=False)
class Scene(Printable):
    """What the methods of one point are given, which changes with what hooks ask for."""

    point: Point
    subject: str
    agent: Agent
    state: RunState
    _call: Call | None = field(init=False, default=None)
    _result: CallResult | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if self.point == "before_tool":
            self._call = self._asked()
        elif self.point == "after_tool" and (action := self.state.action(self.subject)) is not None:
            self._call = Call(action.action, action.tool, action.arguments)
            self._result = CallResult(bool(action.ok), action.text)

    def _asked(self) -> Call | None:
        asked = next((call for name, call in self.state.unplanned if name == self.subject), None)
        if asked is None:
            return None
        try:
            return Call(self.subject, asked.name, parse_arguments(asked.arguments))
        except ArgumentsError:
            return Call(self.subject, asked.name, None)

    def given(self, messages: tuple[Message, ...]) -> tuple[object, ...]:
        """The arguments of the next method."""
        seen = self._view(messages)
        match self.point:
            case "after_model":
                name = f"{self.state.run}/{self.subject}"
                reply = next((message for message in reversed(messages) if message.id == name), None)
                return seen, reply if isinstance(reply, AI) else AI(name)
            case "before_tool":
                return seen, self._call
            case "after_tool":
                return seen, self._call, self._result
            case "on_error":
                return seen, self._failure()
            case _:
                return (seen,)

    def heed(self, op: Op) -> None:
        """What a hook asked for shows to the next."""
        if isinstance(op, SetArguments) and self._call is not None:
            self._call = Call(self._call.action, self._call.tool, op.arguments)
        elif isinstance(op, Answer) and self.point == "after_tool":
            self._result = CallResult(op.ok, op.text)

    def _view(self, messages: tuple[Message, ...]) -> View:
        state = self.state
        told = state.usage
        known = told.unknown == 0
        return View(
            run=state.run,
            agent=state.agent,
            index=int(self.subject.partition(".")[0]),
            messages=messages,
            state=view(self.agent.state, state.named),
            steps=state.steps,
            usage=Usage(told.input_tokens, told.output_tokens) if known else Usage(),
            passed=dict(state.hooks.passed),
        )

    def _failure(self) -> ModelFailure:
        call = self.state.model
        if call is None:
            return ModelFailure("", 0, "", None, final=True)
        attempts = self.state.limits.model_attempts if self.state.limits else 1
        final = call.retry_at is None or call.attempt - call.spent >= attempts
        return ModelFailure(call.message, call.attempt, call.model, call.status, final)
