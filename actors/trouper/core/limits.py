"""How far a run may go: one value for steps, calls, tokens, money and time, and what happens when one is reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from trouper.errors import DefinitionError
from trouper_journal import Plain, Value

OnLimit: TypeAlias = Literal["raise", "finish", "wait"]
Resource: TypeAlias = Literal["steps", "model_calls", "tool_calls", "tokens", "cost", "seconds"]

SECOND = 1_000_000_000

_FIRST = ("max_steps", "on_limit", "model_attempts")
_COUNTS = ("max_steps", "model_attempts")
_OPTIONAL_COUNTS = ("max_model_calls", "max_tool_calls", "max_tokens", "max_cost")
_ON_LIMIT = ("raise", "finish", "wait")


def _whole(number: object, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def _copied(given: Mapping[str, int]) -> Mapping[str, int]:
    anything: object = given
    if not isinstance(anything, Mapping):
        raise DefinitionError(f"limits, tool_calls: give a mapping of tools to numbers, not {type(anything).__name__}")
    return dict(given)


def _as_float(given: float | None) -> float | None:
    # As it comes back from the journal: 60 and 60.0 must not be two definitions.
    return float(given) if type(given) is int else given


def _nothing() -> dict[str, int]:
    return {}


@frozen(slots=False, repr=False, eq=False)
class Limits(Plain):
    """How far a run may go. What is None has no limit.

    All but ``max_steps`` and ``model_attempts`` hold for the run *and everything below it*: what its sub-agents spend
    counts. They are looked at before anything is spent, and they count the same live, after a restart and on replay.

    Attributes:
        max_steps: Super-steps: each model call is one, each batch of tools is one. A failed or lost request that is
            sent again is not another step.
        on_limit: ``raise`` fails the run, resumably; ``finish`` makes one last request, without tools, and takes its
            answer (that request comes on top of the run's own limits, never of an ancestor's); ``wait`` lets the run
            wait, durably and out of memory, until somebody raises the limit.
        model_attempts: How often one request is sent at most when it fails in a way that may pass.
        max_model_calls: Model calls. A request that failed or was lost and is sent again is the same call.
        max_tool_calls: Calls of tools, all together. Calls beyond it are not started; calls that are refused for
            another reason do not count, and neither do further attempts at a call.
        tool_calls: Calls of single tools, by name. Only that tool's calls are refused beyond it (the model is told);
            the run goes on whatever ``on_limit`` says.
        max_tokens: Tokens of requests and replies together. Each request reserves an estimate of its input and its
            maximum output; so the limit holds up to the error of that estimate.
        max_cost: Cost in nano-units of the currency of the runtime's prices. Held like ``max_tokens``; a request whose
            model has no price is refused.
        max_seconds: Wall time since the run was taken up, waiting for people and restarts included.
        soft: The fraction of a limit, between 0 and 1, at which the model is told how much is left: once for each
            limit, by a message before its next request; the models of sub-agents too, of what they share. None: it is
            not told.

    Raises:
        DefinitionError: A number that is none, or too small, or a word that is not one of those.
    """

    max_steps: int = 50
    on_limit: OnLimit = "raise"
    model_attempts: int = 5
    max_model_calls: int | None = field(default=None, kw_only=True)
    max_tool_calls: int | None = field(default=None, kw_only=True)
    tool_calls: Mapping[str, int] = field(factory=_nothing, converter=_copied, hash=False, kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    max_cost: int | None = field(default=None, kw_only=True)
    max_seconds: float | None = field(default=None, converter=_as_float, kw_only=True)
    soft: float | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name in _COUNTS:
            if not _whole(number := getattr(self, name), 1):
                raise DefinitionError(f"limits, {name}: {number!r} is not a whole number of at least 1")
        for name in _OPTIONAL_COUNTS:
            if (number := getattr(self, name)) is not None and not _whole(number, 1):
                raise DefinitionError(f"limits, {name}: {number!r} is neither None nor a whole number of at least 1")
        for tool, number in self.tool_calls.items():
            if not isinstance(tool, str) or not tool:
                raise DefinitionError(f"limits, tool_calls: {tool!r} is not the name of a tool")
            if not _whole(number, 0):
                raise DefinitionError(f"limits, tool_calls, {tool}: {number!r} is not a whole number of at least 0")
        if not _seconds(self.max_seconds):
            raise DefinitionError(
                f"limits, max_seconds: {self.max_seconds!r} is neither None nor a number of seconds above 0"
            )
        if not _fraction(self.soft):
            raise DefinitionError(f"limits, soft: {self.soft!r} is neither None nor a fraction between 0 and 1")
        if self.on_limit not in _ON_LIMIT:
            raise DefinitionError(f"limits, on_limit: {self.on_limit!r} is neither 'raise', 'finish' nor 'wait'")

    @property
    def nanoseconds(self) -> int | None:
        """``max_seconds`` in nanoseconds."""
        return None if self.max_seconds is None else int(self.max_seconds * SECOND)

    @property
    def counts_tools(self) -> bool:
        """Whether calls of tools are limited."""
        return self.max_tool_calls is not None or bool(self.tool_calls)

    @property
    def reckons(self) -> bool:
        """Whether each request must be reckoned in tokens."""
        return self.max_tokens is not None or self.max_cost is not None

    @property
    def shared(self) -> bool:
        """Whether there is a limit that holds for everything below the run too."""
        return self.max_model_calls is not None or self.max_seconds is not None or self.counts_tools or self.reckons

    def asked(self) -> list[Value]:
        """The limits as what a command asks for; limits of steps alone are three values, as they always were."""
        first: list[Value] = [self.max_steps, self.on_limit, self.model_attempts]
        rest = {name: value for name, value in self.to_value().items() if name not in _FIRST}
        return [*first, rest] if rest else first

    def to_value(self) -> dict[str, Value]:
        """The limits as plain data (for a definition document); what is not set is absent."""
        value: dict[str, Value] = {
            "max_steps": self.max_steps,
            "on_limit": self.on_limit,
            "model_attempts": self.model_attempts,
        }
        for name in (*_OPTIONAL_COUNTS, "max_seconds", "soft"):
            if (number := getattr(self, name)) is not None:
                value[name] = number
        if self.tool_calls:
            value["tool_calls"] = dict(self.tool_calls)
        return value


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _seconds(value: object) -> bool:
    return value is None or ((number := _number(value)) is not None and number > 0)


def _fraction(value: object) -> bool:
    return value is None or ((number := _number(value)) is not None and 0 < number < 1)
