"""What a tool's author may declare beside the function itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypedDict

from attrs import field, fields_dict, frozen

from trouper.core.conversation import Value
from trouper.core.effects import Effect
from trouper.errors import DefinitionError
from trouper_journal import Plain

from ._authorize import Authorize
from ._retry import Retry
from ._signature import is_async
from ._tool_result import MAX_RESULT

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
    strict: bool
    retry: Retry | None
    max_result: int | None
    permissions: Sequence[str]
    authorize: Authorize | None
    return_direct: bool


# About thirty years: a moment that far ahead can still be written down, and no clock of a loop overflows.
_LONGEST = 10**9


def _frozen_map(value: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


def _effect(value: Effect | EffectName | None) -> Effect | None:
    return None if value is None else Effect(value)


@frozen(slots=False, repr=False, eq=False)
class ToolOptions(Plain):
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
        strict: Whether providers shall hold the model to the schema word by word.
        retry: How often and how long after each other attempts are made; None for the default.
        max_result: How many characters of a result a model is told; None for all.
        permissions: What a run must have been granted to use it.
        authorize: Asked about each call just before it starts.
        return_direct: Whether its result ends the run, as its output.
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
    strict: bool = False
    retry: Retry | None = None
    max_result: int | None = MAX_RESULT
    permissions: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    authorize: Authorize | None = None
    return_direct: bool = False


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
    for option, (fits, otherwise) in _FITS.items():
        if option in declared and not fits(declared[option]):
            raise refuse(option, otherwise.format(declared[option]))
    if reason := _retry_refusal(declared):
        raise refuse("retry", reason)
    if (declared.get("query") is not None) != (declared.get("effect") == Effect.QUERYABLE_WRITE):
        raise refuse("query", "a queryable_write needs one, and no other effect class may have one")
    if declared.get("return_direct"):
        # No model reads it: nothing is cut unless the author says so.
        declared = {"max_result": None, **declared}
    if isinstance(retry := declared.get("retry"), Retry):
        declared = {**declared, "attempts": retry.attempts}
    return ToolOptions(**declared)  # type: ignore[arg-type] # each value was just checked


def _retry_refusal(declared: Mapping[str, object]) -> str | None:
    retry = declared.get("retry")
    if retry is None:
        return None
    if not isinstance(retry, Retry):
        return f"give a Retry, not {type(retry).__name__}"
    if "attempts" in declared:
        return "it says how many attempts are made; leave out attempts="
    if retry.on and declared.get("effect") in {None, Effect.UNQUERYABLE_WRITE}:
        # Nobody knows whether such a call took effect, whatever its error is called.
        return "an unqueryable_write is not tried again on an error of on=; raise TransientError where it had no effect"
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_effect(value: object) -> bool:
    return value is None or (isinstance(value, str) and value in set(Effect))


def _is_seconds(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_optional_count(value: object) -> bool:
    return value is None or _is_count(value)


def _is_secrets(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_text(part) for item in value.items() for part in item)


def _is_gate(value: object) -> bool:
    return isinstance(value, bool) or (callable(value) and not is_async(value))


def _is_permissions(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(map(_is_text, value))


_SECONDS = f"{{!r}} is not a number of seconds above 0 and up to {_LONGEST}"
_COUNT = "{!r} is not a whole number of at least 1"

_FITS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "effect": (_is_effect, f"{{!r}} is none of {', '.join(Effect)}"),
    "secrets": (_is_secrets, "give a mapping of parameter names to names of secrets"),
    "timeout": (_is_seconds, _SECONDS),
    "approval_expires": (_is_seconds, _SECONDS),
    "attempts": (_is_count, _COUNT),
    "concurrency": (_is_optional_count, _COUNT),
    "permissions": (_is_permissions, 'give a sequence of names, such as ("crm:write",), not {!r}'),
    "authorize": (lambda value: value is None or callable(value), "give a function of the request"),
    "max_result": (_is_optional_count, _COUNT),
    "version": (_is_text, 'give a text that is not empty, such as "2"'),
    "requires_approval": (_is_gate, "give true, false or a plain function of the arguments"),
    "query": (lambda value: value is None or callable(value), "give a function"),
    "return_direct": (_is_flag, "give true or false"),
    "strict": (_is_flag, "give true or false"),
}
"""What each option must be, and what is said where it is not."""
