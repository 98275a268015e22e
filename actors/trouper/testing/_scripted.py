"""A model that says what a test wrote down, and fails on every call that the test did not expect."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from types import TracebackType
from typing import Self, TypeAlias

import trio
from attrs import field, frozen

from trouper.core.conversation import AI, Message, ToolCall, ToolSpec, Usage, Value
from trouper.core.exchange import ModelConfig, ModelReply
from trouper.models import OutputSupport
from trouper_journal import Plain

_USAGE = Usage(input_tokens=10, output_tokens=5)


class UnexpectedModelCall(AssertionError):
    """A scripted model was called more often, or later in the conversation, than its script goes."""


class UnusedModelSteps(AssertionError):
    """A scripted model was not called as often as its script says."""


@frozen(slots=False, repr=False, eq=False)
class ModelRequest(Plain):
    """What a scripted model was asked.

    Attributes:
        messages: The conversation.
        tools: The tools that it could have called.
        config: The settings of the call.
    """

    messages: tuple[Message, ...] = field(converter=tuple[Message, ...])
    tools: tuple[ToolSpec, ...] = field(converter=tuple[ToolSpec, ...])
    config: ModelConfig

    @property
    def turn(self) -> int:
        """How many replies of a model the conversation holds already."""
        return sum(isinstance(message, AI) for message in self.messages)


Answer: TypeAlias = str | AI | ModelReply | Exception
"""A text, a message, a whole reply, or an error to raise."""

Step: TypeAlias = Answer | Callable[[ModelRequest], Answer | Awaitable[Answer]] | Sequence[Answer]
"""An answer, a function (plain or async) that makes one of the request, or (by turn) the answers to its attempts."""


def call(name: str, /, **arguments: Value) -> AI:
    """A reply that calls one tool."""
    return raw_call(name, json.dumps(arguments))


def raw_call(name: str, arguments: str, *, provider_id: str | None = None) -> AI:
    """A reply that calls one tool with an argument text of any kind, and the id that a provider would give."""
    return AI("", None, (ToolCall("", name, arguments, provider_id),))


def calls(*replies: AI, text: str | None = None) -> AI:
    """One reply with all the calls of several, in order: ``calls(call("add", n=1), call("add", n=2))``."""
    return AI("", text, tuple(each for reply in replies for each in reply.tool_calls))


class ScriptedModel:
    """A model with a script.

    Each call takes the next step. With ``by_turn`` the step is chosen by the number of model replies in the request
    instead, so that the script goes on in its place after the process was killed and started again. There, and only
    there, a step may be a list or tuple: the answers to the attempts at this turn, of which the last one repeats.

    As a context manager it ends with `assert_done`, unless the block raised.

    Args:
        steps: The script.
        name: The model's name, which enters the journal.
        by_turn: Whether steps are chosen by turn.
        usage: Tokens that each reply claims to have taken; by default 10 in and 5 out.
        output_support: How far it claims that it can be held to a schema; see `trouper.models.output_support`.

    Raises:
        ValueError: The script is a single text, or has a list of attempts that is empty or that only its first could
            be taken of.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        name: str = "scripted",
        by_turn: bool = False,
        usage: Usage = _USAGE,
        output_support: OutputSupport = "none",
    ) -> None:
        if isinstance(steps, str):
            raise ValueError(f"a script is a list of steps: [{steps!r}]")  # noqa: TRY004 -- a text is a sequence too
        for place, step in enumerate(steps):
            if isinstance(step, Sequence) and not isinstance(step, str) and not (by_turn and step):
                raise ValueError(f"step {place}: a list holds the attempts at a turn; it needs by_turn=True, and one")
        self.name = name
        self.output_support = output_support
        self.requests: list[ModelRequest] = []
        self._steps = tuple(steps)
        self._by_turn = by_turn
        self._usage = usage
        self._served: dict[int, int] = {}
        self._unexpected: list[str] = []

    def __repr__(self) -> str:
        return f"ScriptedModel({len(self._steps)} steps, {len(self.requests)} requests)"

    def identity(self) -> Mapping[str, Value]:
        """What enters an agent's definition: the same for every script of this name."""
        return {"provider": "scripted", "model": self.name}

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), config: ModelConfig | None = None
    ) -> ModelReply:
        """Take the next step.

        Raises:
            UnexpectedModelCall: If the script has none.
            Exception: If the step is an error.
        """
        await trio.lowlevel.checkpoint()
        request = ModelRequest(messages, tools, config or ModelConfig())
        self.requests.append(request)
        answer = self._next(request)
        if callable(answer):
            made = answer(request)
            answer = await made if isawaitable(made) else made
        if isinstance(answer, Exception):
            raise answer
        return self._reply(answer)

    def _next(self, request: ModelRequest) -> Answer | Callable[[ModelRequest], Answer | Awaitable[Answer]]:
        place = request.turn if self._by_turn else len(self.requests) - 1
        if place >= len(self._steps):
            last = request.messages[-1] if request.messages else None
            where = f"turn {place}" if self._by_turn else f"call {place}"
            complaint = f"{where} of {self.name!r}, whose script has {len(self._steps)} steps; last message: {last}"
            self._unexpected.append(complaint)
            raise UnexpectedModelCall(complaint)
        attempt = self._served.get(place, 0)
        self._served[place] = attempt + 1
        step = self._steps[place]
        if isinstance(step, Sequence) and not isinstance(step, str):
            return step[min(attempt, len(step) - 1)]
        return step

    def _reply(self, answer: str | AI | ModelReply) -> ModelReply:
        if isinstance(answer, ModelReply):
            return answer
        message = AI("", answer) if isinstance(answer, str) else answer
        reason = "tool_calls" if message.tool_calls else "refusal" if message.refusal else "stop"
        return ModelReply(message, reason, self._usage, model=self.name)

    def assert_done(self) -> None:
        """Check that every step was taken and that no call went beyond them.

        With ``by_turn`` only the last step must have been taken here: an earlier process may have taken the others.

        Raises:
            UnexpectedModelCall: If there was such a call, even if somebody caught its error.
            UnusedModelSteps: If steps are left.
        """
        if self._unexpected:
            raise UnexpectedModelCall("; ".join(self._unexpected))
        wanted = range(len(self._steps))[-1:] if self._by_turn else range(len(self._steps))
        left = [place for place in wanted if place not in self._served]
        if left:
            raise UnusedModelSteps(f"{self.name!r} was not asked for step {', '.join(map(str, left))}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.assert_done()
