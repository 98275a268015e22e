"""What a tool's author may declare beside the function itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, TypedDict

from attrs import field, fields_dict, frozen

from trouper.core.conversation import Value
from trouper.core.effects import Effect
from trouper.errors import DefinitionError

from ._signature import is_async

EffectName: TypeAlias = Literal["read_only", "idempotent_write", "queryable_write", "unqueryable_write"]
"""An effect class by its name."""

ApprovalPredicate: TypeAlias = Callable[[Mapping[str, Value]], bool]
"""Whether a call with these arguments (as JSON, before conversion) needs an approval."""


class Declarations(TypedDict, total=False):
    """The keyword arguments of `tool`."""

    name: str | None
    description: str | None
    schema: Mapping[str, object] | None
    effect: Effect | EffectName | None
    requires_approval: bool | ApprovalPredicate
    secrets: Mapping[str, str]
    timeout: float | None
    query: Callable[..., object] | None
    attempts: int
    concurrency: int | None
    version: str
    approval_expires: float | None


# About thirty years: a moment that far ahead can still be written down, and no clock of a loop overflows.
_LONGEST = 10**9


def _frozen_map(value: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


def _effect(value: Effect | EffectName | None) -> Effect | None:
    return None if value is None else Effect(value)


@frozen
class ToolOptions:
    """How a tool is run and guarded.

    Attributes:
        effect: The declared effect class; None where none was declared (then the dangerous case counts).
        requires_approval: Whether a person must agree, always or by a predicate on the arguments.
        secrets: Name of the secret for each parameter that gets one.
        timeout: Seconds that one attempt may take; None for no limit.
        query: For a ``queryable_write``: tells whether an interrupted call took place.
        attempts: How often a call may be tried in all, where its effect class allows another try.
        concurrency: How many calls may run at once; None for no limit of the tool's own.
        version: The author's number for the tool's behaviour; raise it when the same schema means something else.
        approval_expires: Seconds after which an approval that nobody decided lapses; None for never.
    """

    effect: Effect | None = field(default=None, converter=_effect)
    requires_approval: bool | ApprovalPredicate = False
    secrets: Mapping[str, str] = field(factory=dict, converter=_frozen_map)
    timeout: float | None = None
    query: Callable[..., object] | None = None
    attempts: int = 3
    concurrency: int | None = None
    version: str = "1"
    approval_expires: float | None = None


def read_options(tool: str, declared: Mapping[str, object]) -> ToolOptions:
    """Check what was declared for a tool.

    Raises:
        DefinitionError: For an option that cannot be meant, naming tool and option.
    """

    def refuse(option: str, reason: str) -> DefinitionError:
        return DefinitionError(f"tool {tool}, {option}: {reason}")

    known = fields_dict(ToolOptions)
    if unknown := [option for option in declared if option not in known]:
        raise refuse(unknown[0], f"there is no such option; options: {', '.join(Declarations.__annotations__)}")
    effect = declared.get("effect")
    if effect is not None and (not isinstance(effect, str) or effect not in set(Effect)):
        raise refuse("effect", f"{effect!r} is none of {', '.join(Effect)}")
    secrets = declared.get("secrets", {})
    if not isinstance(secrets, Mapping) or not all(_is_text(part) for item in secrets.items() for part in item):
        raise refuse("secrets", "give a mapping of parameter names to names of secrets")
    for option in ("timeout", "approval_expires"):
        if not _is_seconds(declared.get(option)):
            raise refuse(option, f"{declared[option]!r} is not a number of seconds above 0 and up to {_LONGEST}")
    for option in ("attempts", "concurrency"):
        if not _is_count(declared.get(option, 1), optional=option == "concurrency"):
            raise refuse(option, f"{declared[option]!r} is not a whole number of at least 1")
    if not _is_text(declared.get("version", "1")):
        raise refuse("version", 'give a text that is not empty, such as "2"')
    gate = declared.get("requires_approval", False)
    if not isinstance(gate, bool) and (not callable(gate) or is_async(gate)):
        raise refuse("requires_approval", "give true, false or a plain function of the arguments")
    query = declared.get("query")
    if query is not None and not callable(query):
        raise refuse("query", "give a function")
    if (query is not None) != (effect == Effect.QUERYABLE_WRITE):
        raise refuse("query", "a queryable_write needs one, and no other effect class may have one")
    return ToolOptions(**declared)  # type: ignore[arg-type] # each value was just checked


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_seconds(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST)


def _is_count(value: object, *, optional: bool) -> bool:
    return (optional and value is None) or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)
