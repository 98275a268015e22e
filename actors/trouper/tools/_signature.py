"""Reading a function: its parameters with resolved annotations, and its docstring."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import cast

from attrs import frozen

from trouper.errors import DefinitionError, SchemaError
from trouper_journal import Plain

from ._context import ToolContext

MISSING = inspect.Parameter.empty


@frozen(slots=False, repr=False, eq=False)
class Parameter(Plain):
    """One parameter that the model fills.

    Attributes:
        name: Its name.
        annotation: Its annotation, resolved; `MISSING` where there is none.
        default: Its default; `MISSING` where there is none.
    """

    name: str
    annotation: object
    default: object

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING


@frozen(slots=False, repr=False, eq=False)
class Signature(Plain):
    """How a function is to be called.

    Attributes:
        parameters: Those that the model fills, in order.
        secrets: Those that get secrets.
        context: The one that gets the `ToolContext`; None where there is none.
        positional: Those that can only be passed by position, in order, each with its default.
        takes_any: Whether it has ``**kwargs``.
    """

    parameters: tuple[Parameter, ...]
    secrets: tuple[str, ...]
    context: str | None
    positional: tuple[tuple[str, object], ...]
    takes_any: bool

    def split(self, given: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Arguments by name as positional and keyword arguments of a call."""
        by_name = dict(given)
        by_position: list[object] = []
        for name, default in self.positional:
            value = by_name.pop(name, default)
            if value is MISSING:
                break
            by_position.append(value)
        return by_position, by_name


def underlying(fn: Callable[..., object]) -> Callable[..., object]:
    """The function within partials, bound methods, wrappers and callable objects."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    if isinstance(fn, types.MethodType):
        return underlying(fn.__func__)
    if isinstance(fn, types.FunctionType | types.BuiltinFunctionType | type):
        return fn
    return cast("Callable[..., object]", type(fn).__call__)


def is_async(fn: Callable[..., object]) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(type(fn), "__call__", None))  # noqa: B004


def read_signature(
    tool: str, fn: Callable[..., object], secrets: Iterable[str], *, names: Mapping[str, object], explicit: bool
) -> Signature:
    """Sort a function's parameters into those for the model and those that are injected.

    Args:
        tool: The tool's name, for messages.
        fn: The function.
        secrets: Parameters that get secrets.
        names: Names that annotations may use beside the function's globals.
        explicit: Whether the schema is given, so that ``**kwargs`` and missing annotations are fine.

    Raises:
        SchemaError: For a parameter that no model can fill.
        DefinitionError: For something that cannot be a tool.
    """
    wanted = tuple(secrets)
    space = getattr(underlying(fn), "__globals__", {})
    model: list[Parameter] = []
    positional: list[tuple[str, object]] = []
    context: str | None = None
    every = parameters_of(tool, fn)
    for parameter in every.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append((parameter.name, parameter.default))
        if parameter.name in wanted:
            continue
        annotation = _resolved(tool, parameter, space, names)
        if _is_context(annotation):
            if context is not None:
                raise SchemaError(tool, parameter.name, f"the context goes to {context} already")
            context = parameter.name
        elif parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            if not explicit or parameter.kind is parameter.VAR_POSITIONAL:
                raise SchemaError(tool, parameter.name, "a model cannot fill *args or **kwargs; name each parameter")
        elif annotation is MISSING and not explicit:
            raise SchemaError(tool, parameter.name, _no_annotation(parameter.name))
        else:
            model.append(Parameter(parameter.name, annotation, parameter.default))
    for name in wanted:
        if name not in every:
            raise SchemaError(tool, name, "named in secrets, but the function has no such parameter")
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in every.values())
    return Signature(tuple(model), wanted, context, tuple(positional), takes_any)


def parameters_of(tool: str, fn: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """The parameters that a call can fill, by name.

    Raises:
        DefinitionError: They cannot be read, or it is a generator.
    """
    if inspect.isgeneratorfunction(underlying(fn)) or inspect.isasyncgenfunction(underlying(fn)):
        raise DefinitionError(f"tool {tool}: a generator cannot be a tool; return the whole result")
    # What a partial has fixed is the host's choice: it stays out of the model's reach.
    fixed: set[str] = set()
    inner = fn
    while isinstance(inner, functools.partial):
        fixed |= inner.keywords.keys()
        inner = inner.func
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError, NameError) as error:
        raise DefinitionError(f"tool {tool}: its parameters cannot be read: {error}") from error
    return {name: parameter for name, parameter in signature.parameters.items() if name not in fixed}


def _no_annotation(name: str) -> str:
    if name in {"self", "cls"}:
        return "make a tool of the bound method: tool(object.method)"
    return "it has no annotation, so a model cannot be told what to send"


def _resolved(tool: str, parameter: inspect.Parameter, space: dict[str, object], names: Mapping[str, object]) -> object:
    if parameter.annotation is MISSING:
        return MISSING
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(holder, space, dict(names), include_extras=True)[parameter.name]
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        reason = f"its annotation {parameter.annotation!r} cannot be resolved ({error}); import it at run time"
        raise SchemaError(tool, parameter.name, reason) from error


def _is_context(annotation: object) -> bool:
    if annotation is ToolContext:
        return True
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _is_context(arguments[0])
    if origin in {typing.Union, types.UnionType}:
        others = [argument for argument in arguments if argument is not types.NoneType]
        return len(others) == 1 and _is_context(others[0])
    return False


@frozen(slots=False, repr=False, eq=False)
class Docstring(Plain):
    """What a docstring says.

    Attributes:
        description: Its summary, and the long description where there is one.
        parameters: The text for each parameter.
    """

    description: str
    parameters: Mapping[str, str]


def read_docstring(fn: Callable[..., object]) -> Docstring:
    """Read a docstring in Google, NumPy or reST style."""
    import docstring_parser

    text = inspect.getdoc(underlying(fn)) or ""
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Docstring(text.split("\n\n")[0].strip(), {})
    summary = parsed.short_description or ""
    if parsed.long_description:
        summary += ("\n\n" if parsed.blank_after_short_description else "\n") + parsed.long_description
    told = {each.arg_name.lstrip("*"): each.description for each in parsed.params if each.description}
    return Docstring(summary.strip(), told)
