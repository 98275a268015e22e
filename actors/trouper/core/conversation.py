"""Messages between people, models and tools, in no provider's dialect.

A message is a frozen value with an id of its own. Everything that a provider sent and that we do not interpret
is kept in ``extra``, so that it can be sent back as it came; nothing here knows any wire format (``chat.py`` does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal, Protocol, TypeAlias, TypeVar

from attrs import field, frozen

from trouper_journal import Printable
from trouper_journal._values import Value as Value

Part: TypeAlias = Mapping[str, Value]
"""One content part (text, image, audio, file, ...) as JSON, kept as it came."""

Content: TypeAlias = str | tuple[Part, ...]


class Shown(Protocol):
    """Something that can stand in a message as a content part, such as an `Image`."""

    def part(self) -> Part:
        """It as a content part."""
        ...


def _content(value: str | Iterable[Part | Shown | str]) -> Content:
    return value if isinstance(value, str) else tuple(_part(item) for item in value)


def _part(item: Part | Shown | str) -> Part:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    # What cannot be a part stays as it is: it is refused, with its place, where the message is used.
    make = getattr(item, "part", None)
    return make() if callable(make) else item  # type: ignore[return-value]


def _nothing() -> dict[str, Value]:
    return {}


@frozen(repr=False)
class ToolCall(Printable):
    """A model's wish that a tool be called.

    Attributes:
        id: Our own id, unique in the run; empty in a reply that no runtime has numbered yet.
        name: The tool's name as the model wrote it, which need not be the name of any tool.
        arguments: The arguments exactly as the provider sent them; not necessarily JSON.
        provider_id: The provider's id for the call. It may be absent, empty or used twice: kept for audit only.
        extra: What else the provider attached to the call, to be sent back as it came.
    """

    id: str
    name: str
    arguments: str
    provider_id: str | None = None
    extra: Mapping[str, Value] = field(factory=_nothing)


@frozen(repr=False)
class System(Printable):
    """Standing orders.

    Attributes:
        id: The message's id.
        content: Text, or content parts.
        extra: Other fields of the message (such as ``name``), kept as they came.
    """

    role: ClassVar[Literal["system"]] = "system"

    id: str
    content: Content = field(converter=_content)
    extra: Mapping[str, Value] = field(factory=_nothing)


@frozen(repr=False)
class Human(Printable):
    """What a person, or a program in a person's place, said.

    Attributes:
        id: The message's id.
        content: Text, or content parts: texts, `Image`, `Audio` and `File`, or parts as JSON.
        extra: Other fields of the message (such as ``name``), kept as they came.
    """

    role: ClassVar[Literal["human"]] = "human"

    id: str
    content: Content = field(converter=_content)
    extra: Mapping[str, Value] = field(factory=_nothing)


def _optional_content(value: str | Iterable[Part | Shown | str] | None) -> Content | None:
    return None if value is None else _content(value)


@frozen(repr=False)
class AI(Printable):
    """What a model answered.

    Attributes:
        id: The message's id.
        content: Text or content parts; None where the model gave none.
        tool_calls: The calls it asked for, in the order asked.
        reasoning: The reasoning text that the provider disclosed.
        refusal: The model's words where it declined to answer.
        reasoning_field: The provider's name for the field that brought ``reasoning``, under which it is sent back;
            None where it shall not be.
        extra: Provider fields to be sent back as they came.
    """

    role: ClassVar[Literal["ai"]] = "ai"

    id: str
    content: Content | None = field(default=None, converter=_optional_content)
    tool_calls: tuple[ToolCall, ...] = field(default=(), converter=tuple[ToolCall, ...])
    reasoning: str | None = None
    refusal: str | None = None
    reasoning_field: str | None = None
    extra: Mapping[str, Value] = field(factory=_nothing)


@frozen(repr=False)
class ToolMessage(Printable):
    """A tool's answer to one call.

    Attributes:
        id: The message's id.
        call_id: Our id of the call that it answers.
        name: The tool's name as in the call.
        content: What the model is told.
        status: ``error`` where the call did not do what was asked.
        provider_id: The call's id on the wire, where the message came from there.
        extra: Other fields of the message, kept as they came.
    """

    role: ClassVar[Literal["tool"]] = "tool"

    id: str
    call_id: str
    name: str
    content: Content = field(converter=_content)
    status: Literal["ok", "error"] = "ok"
    provider_id: str | None = None
    extra: Mapping[str, Value] = field(factory=_nothing)


@frozen(slots=False, repr=False)
class Removal(Printable):
    """Takes the message with this id out of a conversation (see `add_messages`)."""

    role: ClassVar[Literal["removal"]] = "removal"

    id: str


Message: TypeAlias = System | Human | AI | ToolMessage
"""A message as it stands in a conversation."""

Change: TypeAlias = Message | Removal
"""A message to add or to replace, or the removal of one."""


def add_messages(messages: Sequence[Message], new: Iterable[Change]) -> tuple[Message, ...]:
    """Apply changes to a conversation, in order.

    A message with a new id goes to the end; one with a known id replaces the old one in its place; a `Removal`
    takes one out, and a removal of an unknown id changes nothing. (The rule of LangGraph's ``add_messages``.)

    Args:
        messages: The conversation so far.
        new: The changes.

    Returns:
        The conversation after them.
    """
    # A dict keeps the place of a key that is assigned again, and forgets that of a deleted one.
    kept: dict[str, Message] = {message.id: message for message in messages}
    for change in new:
        if isinstance(change, Removal):
            kept.pop(change.id, None)
        else:
            kept[change.id] = change
    return tuple(kept.values())


def text(content: Content | None) -> str:
    """The text of a message's content; parts that are not text appear as ``[type]``."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_part_text(part) for part in content)


def _part_text(part: Part) -> str:
    for key in ("text", "refusal"):
        value = part.get(key)
        if isinstance(value, str):
            return value
    kind = part.get("type")
    return f"[{kind}]" if isinstance(kind, str) else "[part]"


def pretty(messages: Message | Iterable[Message]) -> str:
    """Print one message, or a conversation, for people: a rule with the speaker's name, then what was said."""
    several = (messages,) if isinstance(messages, System | Human | AI | ToolMessage) else messages
    return "\n\n".join(f"{_heading(message):=^72}\n{_body(message)}".rstrip() for message in several)


def _heading(message: Message) -> str:
    match message:
        case System():
            return " System "
        case Human():
            return " Human "
        case AI():
            return " AI "
        case ToolMessage():
            return f" Tool {message.name}{' (error)' if message.status == 'error' else ''} "


def _body(message: Message) -> str:
    lines: list[str] = []
    if isinstance(message, AI):
        lines += [f"(reasoning) {message.reasoning}"] if message.reasoning else []
    lines += [said] if (said := text(message.content)) else []
    if isinstance(message, AI):
        lines += [f"(refusal) {message.refusal}"] if message.refusal else []
        lines += [f"-> {call.name}({call.arguments})  [{call.id or call.provider_id}]" for call in message.tool_calls]
    return "\n".join(lines)


_Number = TypeVar("_Number", int, float)


def _plus(left: _Number | None, right: _Number | None) -> _Number | None:
    return None if left is None or right is None else left + right


@frozen(slots=False, repr=False)
class Usage(Printable):
    """Tokens that a call took, as the provider counted them.

    None means unknown, which is never the same as 0: a sum with an unknown part is unknown.

    Attributes:
        input_tokens: Tokens of the request.
        output_tokens: Tokens of the reply, reasoning included.
        cached_tokens: Those of the request that the provider had cached.
        reasoning_tokens: Those of the reply that were reasoning.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @classmethod
    def zero(cls) -> Usage:
        """Nothing used: where a sum begins."""
        return cls(0, 0, 0, 0)

    @property
    def total_tokens(self) -> int | None:
        """Tokens of request and reply together."""
        return _plus(self.input_tokens, self.output_tokens)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _plus(self.input_tokens, other.input_tokens),
            _plus(self.output_tokens, other.output_tokens),
            _plus(self.cached_tokens, other.cached_tokens),
            _plus(self.reasoning_tokens, other.reasoning_tokens),
        )


@frozen(slots=False, repr=False)
class ToolSpec(Printable):
    """A tool as a model sees it.

    Attributes:
        name: What the model calls it; matches ``^[a-zA-Z0-9_-]{1,64}$``.
        description: What it is for.
        parameters: JSON Schema of its arguments, an object.
        strict: Whether the provider shall hold the model to the schema; None leaves it to the provider.
    """

    name: str
    description: str
    parameters: Mapping[str, Value]
    strict: bool | None = None
