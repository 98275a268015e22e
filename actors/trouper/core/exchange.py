"""What goes to a model beside the messages, and what comes back: settings, replies, pieces of a streamed reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from attrs import Attribute, field, fields, frozen

from trouper.errors import DefinitionError
from trouper_journal import Plain

from . import config_checks as checks
from .conversation import AI, Usage, Value


def _nothing() -> dict[str, Value]:
    return {}


_Setting = TypeVar("_Setting")


def _first(said: _Setting | None, otherwise: _Setting | None) -> _Setting | None:
    return otherwise if said is None else said


@frozen(slots=False, repr=False, eq=False)
class OutputSchema(Plain):
    """What a reply's text must be: JSON that fits a schema, held to by the provider.

    Attributes:
        schema: The JSON Schema, of an object.
        name: What the provider calls it.
        strict: Whether the provider shall guarantee it; that takes a schema within its rules.
    """

    schema: Mapping[str, Value]
    name: str = "output"
    strict: bool = False


def _a_schema(_: object, attribute: Attribute[OutputSchema | None], value: object) -> None:
    if value is not None and not isinstance(value, OutputSchema):
        raise DefinitionError(f"model config, {attribute.name}: {value!r} is no OutputSchema"[:200])


@frozen(slots=False, repr=False, eq=False)
class ModelConfig(Plain):
    """Settings of one model call; None leaves a setting to the provider.

    Attributes:
        temperature: Sampling temperature.
        top_p: Nucleus sampling.
        max_tokens: Limit of the reply, in tokens, reasoning included.
        stop: Texts at which the reply ends; or one text.
        seed: Seed for providers that can repeat a reply.
        tool_choice: ``auto``, ``none``, ``required`` or the name of the tool that must be called. In an agent's config
            the last two hold until the run's model has called a tool, or that tool; then it is ``auto``.
        parallel_tool_calls: Whether one reply may ask for several calls.
        reasoning_effort: How long the model shall think, in the provider's words.
        extra: Further fields of the request, in the provider's words; they win over the fields above.
        output: What the reply's text must be, for models that can be held to it.

    Raises:
        DefinitionError: A setting that is not what it must be.
    """

    temperature: float | None = field(default=None, validator=checks.number)
    top_p: float | None = field(default=None, validator=checks.number)
    max_tokens: int | None = field(default=None, validator=checks.count)
    stop: tuple[str, ...] = field(default=(), converter=checks.texts)
    seed: int | None = field(default=None, validator=checks.whole)
    tool_choice: str | None = field(default=None, validator=checks.text)
    parallel_tool_calls: bool | None = field(default=None, validator=checks.truth)
    reasoning_effort: str | None = field(default=None, validator=checks.text)
    extra: Mapping[str, Value] = field(factory=_nothing, validator=checks.mapping)
    output: OutputSchema | None = field(default=None, validator=_a_schema)

    def over(self, base: ModelConfig) -> ModelConfig:
        """These settings where they say something, those of ``base`` elsewhere."""
        return ModelConfig(
            _first(self.temperature, base.temperature),
            _first(self.top_p, base.top_p),
            _first(self.max_tokens, base.max_tokens),
            self.stop or base.stop,
            _first(self.seed, base.seed),
            _first(self.tool_choice, base.tool_choice),
            _first(self.parallel_tool_calls, base.parallel_tool_calls),
            _first(self.reasoning_effort, base.reasoning_effort),
            {**base.extra, **self.extra},
            _first(self.output, base.output),
        )

    def to_value(self) -> dict[str, Value]:
        """The settings that say something, as plain data (for a definition document)."""
        said: dict[str, Value] = {}
        for name in (attribute.name for attribute in fields(ModelConfig)):
            value = getattr(self, name)
            if isinstance(value, OutputSchema):
                said[name] = {"name": value.name, "schema": dict(value.schema), "strict": value.strict}
            elif value is not None and value not in ((), {}):
                said[name] = list(value) if isinstance(value, tuple) else value
        return said


@frozen(slots=False, repr=False, eq=False)
class ModelReply(Plain):
    """A model's complete answer to one request.

    Attributes:
        message: What it said. The ids in it are empty: the runtime gives them.
        finish_reason: Why it stopped: ``stop``, ``tool_calls``, ``length``, ``content_filter``, ``refusal``, or a word
            of the provider's own.
        usage: Tokens taken.
        truncated: Whether the reply was cut off by its length limit, so that calls in it must not run: their arguments
            may be incomplete even where they parse.
        model: The model that answered, as the provider named it.
        request_id: The provider's id of the request, for its support desk.
    """

    message: AI
    finish_reason: str = "stop"
    usage: Usage = field(factory=Usage)
    truncated: bool = False
    model: str | None = None
    request_id: str | None = None


@frozen(slots=False, repr=False, eq=False)
class TextDelta(Plain):
    """The next piece of the reply's text."""

    text: str


@frozen(slots=False, repr=False, eq=False)
class ReasoningDelta(Plain):
    """The next piece of the reasoning that the provider discloses."""

    text: str


@frozen(slots=False, repr=False, eq=False)
class RefusalDelta(Plain):
    """The next piece of a refusal."""

    text: str


@frozen(slots=False, repr=False, eq=False)
class ToolCallDelta(Plain):
    """The next piece of a tool call.

    Attributes:
        index: The call's place in the reply as far as known by now.
        id: The provider's id, where this piece brought one.
        name: The tool's name, where this piece brought one.
        arguments: The next piece of the argument text.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@frozen(slots=False, repr=False, eq=False)
class UsageDelta(Plain):
    """The tokens taken, so far or in all."""

    usage: Usage


@frozen(slots=False, repr=False, eq=False)
class Finished(Plain):
    """The end of a streamed reply; it carries the whole of it."""

    reply: ModelReply


Chunk: TypeAlias = TextDelta | ReasoningDelta | RefusalDelta | ToolCallDelta | UsageDelta | Finished
