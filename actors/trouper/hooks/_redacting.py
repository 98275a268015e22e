"""Keeping texts from a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs
from attrs import field, frozen

from trouper.core.conversation import AI, Content, Message, Part, Value
from trouper.core.hook_ops import Answer, Replace
from trouper.errors import DefinitionError

from ._hook import Call, CallResult, Hook, View

_T = TypeVar("_T", bound=Message)


def _compiled(given: Iterable[str | re.Pattern[str]]) -> tuple[re.Pattern[str], ...]:
    if isinstance(given, str | re.Pattern):
        raise DefinitionError("Redact: give a sequence of patterns")
    try:
        return tuple(re.compile(pattern) for pattern in given)
    except (re.error, TypeError) as error:
        raise DefinitionError(f"Redact: {error}") from error


@frozen(slots=False, eq=False)
class Redact(Hook):
    r"""Masks what matches patterns in all that the model is shown of the conversation; the record keeps it.

    Looked at are texts, text parts, the arguments of calls, reasoning and refusals, of whoever said them; not the
    agent's own instructions, and not a provider's opaque fields. Arguments are masked within their values, so that
    they stay JSON.

    Attributes:
        patterns: Regular expressions, as texts or compiled.
        replacement: What stands in the place of a match; ``\1`` and the like name groups.
        results: Whether results of tools are masked before they become part of the conversation, so that runs that
            start from this one do not see them either. The receipts keep them.

    Raises:
        DefinitionError: A pattern that is none.
    """

    patterns: tuple[re.Pattern[str], ...] = field(converter=_compiled)
    replacement: str = "[redacted]"
    results: bool = field(default=False, kw_only=True)

    def identity(self) -> Mapping[str, Value]:
        """Name and settings."""
        patterns: list[Value] = [[pattern.pattern, pattern.flags] for pattern in self.patterns]
        return {"hook": self.name, "patterns": patterns, "replacement": self.replacement, "results": self.results}

    async def before_model(self, view: View) -> list[Replace]:
        """Mask what is new, and what came in since by another way."""
        masked = ((message, self._masked(message)) for message in view.messages)
        return [Replace(new) for old, new in masked if new != old]

    async def after_tool(self, view: View, call: Call, result: CallResult) -> Answer | None:  # noqa: ARG002
        """Mask a result, where that is wanted."""
        text = self._text(result.text)
        return Answer(text, ok=result.ok) if self.results and text != result.text else None

    def _masked(self, message: _T) -> _T:
        if not isinstance(message, AI):
            return attrs.evolve(message, content=self._content(message.content))
        calls = tuple(attrs.evolve(call, arguments=self._arguments(call.arguments)) for call in message.tool_calls)
        return attrs.evolve(
            message,
            content=None if message.content is None else self._content(message.content),
            tool_calls=calls,
            reasoning=None if message.reasoning is None else self._text(message.reasoning),
            refusal=None if message.refusal is None else self._text(message.refusal),
        )

    def _content(self, content: Content) -> Content:
        return self._text(content) if isinstance(content, str) else tuple(self._part(part) for part in content)

    def _part(self, part: Part) -> Part:
        words = {key: self._text(value) for key, value in part.items() if key in _WORDS and isinstance(value, str)}
        return {**part, **words} if words else part

    def _arguments(self, raw: str) -> str:
        # An escape hides what it spells.
        if "\\" not in raw and not any(pattern.search(raw) for pattern in self.patterns):
            return raw
        try:
            plain = json.loads(raw)
            masked = self._within(plain)
            return raw if masked == plain else json.dumps(masked, ensure_ascii=False)
        except (ValueError, RecursionError):
            return self._text(raw)

    def _within(self, value: object) -> object:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._within(item) for item in value]
        if isinstance(value, dict):
            return {self._text(str(key)): self._within(item) for key, item in value.items()}
        text = json.dumps(value)
        masked = self._text(text)
        return value if masked == text else masked

    def _text(self, text: str) -> str:
        for pattern in self.patterns:
            text = pattern.sub(self.replacement, text)
        return text


_WORDS = frozenset({"text", "refusal"})
