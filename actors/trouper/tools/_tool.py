"""``@tool``: a function becomes something that a model can call."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Generic, Literal, TypeAlias, Unpack, overload

from attrs import field, frozen
from typing_extensions import ParamSpec, TypeVar

from trouper.core.conversation import ToolSpec, Value
from trouper.core.effects import Effect
from trouper.errors import DefinitionError, SchemaError
from trouper_journal import Plain

from ._arguments import Reader, parse_arguments, schema_check
from ._options import Declarations, ToolOptions, read_options
from ._schema import describe, explicit_schema, parameters_schema
from ._shape import Schema, descriptions, normal
from ._signature import MISSING, Signature, is_async, parameters_of, read_docstring, read_signature, underlying
from ._strict import LeftOut, strict_schema

P = ParamSpec("P", default=...)
Q = ParamSpec("Q")
S = TypeVar("S")
R = TypeVar("R", covariant=True, default=object)  # noqa: PLC0105 -- short, as in every decorator

GateKind: TypeAlias = Literal["none", "always", "predicate"]

# What OpenAI and Anthropic accept as a function's name.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@frozen(slots=False, repr=False, eq=False)
class Bound(Plain):
    """A call that fits its tool.

    Attributes:
        raw: The argument text as the model sent it.
        arguments: The same as JSON values: what is journaled and approved.
        values: The same as the function's own types: what it is called with.
    """

    raw: str
    arguments: Mapping[str, Value]
    values: Mapping[str, object]


@frozen(slots=False, repr=False, eq=False)
class Gate(Plain):
    """Whether a call needs an approval, and why.

    Attributes:
        required: Whether it does.
        reason: Why, for the record; empty where it does not.
    """

    required: bool
    reason: str = ""


@frozen(slots=False, eq=False, repr=False)
class Tool(Generic[P, R]):
    """A function that a model can call, with all that was declared about it. Calling it calls the function.

    Made by `tool`. Two tools are equal only if they are the same object; `contract` compares what they promise.

    Attributes:
        name: What the model calls it.
        description: What the model is told about it.
        parameters: JSON Schema of the arguments; not to be changed.
        fn: The function.
        options: What was declared beside it.
        signature: How the function is called.
        query_signature: How its query is called; None where it has none.
        strict_parameters: The schema as a provider in strict mode gets it; None where it is not declared strict.
    """

    name: str
    description: str
    parameters: Schema
    fn: Callable[P, R]
    options: ToolOptions
    signature: Signature
    query_signature: Signature | None
    strict_parameters: Schema | None
    _reader: Reader = field(alias="reader")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name} {self.effect}>"

    @property
    def effect(self) -> Effect:
        """Its effect class; ``unqueryable_write`` where none was declared."""
        return self.options.effect or Effect.UNQUERYABLE_WRITE

    @property
    def is_async(self) -> bool:
        """Whether it runs in the event loop; otherwise each call gets a thread."""
        return is_async(self.fn)

    @property
    def gate_kind(self) -> GateKind:
        """Whether calls need an approval: never, always, or as a predicate on the arguments says."""
        gate = self.options.requires_approval
        if isinstance(gate, bool):
            return "always" if gate else "none"
        return "predicate"

    def gate(self, arguments: Mapping[str, Value]) -> Gate:
        """Ask whether a call with these arguments needs an approval.

        A predicate that raises, or that answers anything but True or False, means yes: what cannot be judged is
        treated as the dangerous case. It gets a copy, so that it cannot change what will be run.
        """
        predicate = self.options.requires_approval
        if isinstance(predicate, bool):
            return Gate(predicate, "the tool always requires approval" if predicate else "")
        try:
            answer: object = predicate(copy.deepcopy(dict(arguments)))
        except Exception as error:  # noqa: BLE001 -- a predicate is the user's code
            return Gate(required=True, reason=f"the approval predicate raised {type(error).__name__}")
        if isinstance(answer, bool):
            return Gate(answer, "the tool's predicate requires approval" if answer else "")
        return Gate(required=True, reason=f"the approval predicate answered {type(answer).__name__}, not a boolean")

    def validate(self, arguments: Mapping[str, Value]) -> dict[str, object]:
        """Arguments as JSON values, as values of the function's own types. Defaults are left to the function.

        The values share nothing that can be changed with the arguments: what a function does with them does not reach
        the next attempt.

        Raises:
            ArgumentsError: They do not fit; its message lists every misfit by its path, for a model to mend.
        """
        own = {
            name: copy.deepcopy(value) if isinstance(value, dict | list) else value for name, value in arguments.items()
        }
        return self._reader.read(own)

    def bind(self, raw: str) -> Bound:
        """Read and validate the argument text that a model sent.

        Raises:
            ArgumentsError: It cannot be read, or does not fit; nothing may be run.
        """
        arguments = self.read(raw)
        return Bound(raw, arguments, self.validate(arguments))

    def read(self, raw: str) -> dict[str, Value]:
        """Read the argument text that a model sent, as JSON values; of a strict tool without what was left out.

        Raises:
            ArgumentsError: It is no JSON object.
        """
        arguments = parse_arguments(raw)
        return arguments if self.strict_parameters is None else LeftOut(self.parameters).arguments(arguments)

    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        if self.strict_parameters is None:
            return ToolSpec(self.name, self.description, self.parameters)
        return ToolSpec(self.name, self.description, self.strict_parameters, strict=True)

    def contract(self) -> dict[str, Value]:
        """What the tool promises, in a normal form that is the same in every process.

        Approvals bind to it, and a difference is drift that a waiting run must not slide into. Wording is apart, in
        `prose`; ``concurrency``, ``approval_expires``, waits between attempts and the query's code are how it is run,
        not what it promises. What is not declared is not in it.
        """
        more: dict[str, Value] = {}
        if self.options.strict:
            more["strict"] = True
        if self.options.permissions:
            more["permissions"] = [*sorted(self.options.permissions)]
        if self.options.authorize is not None:
            more["authorize"] = True
        if self.options.return_direct:
            more["return_direct"] = True
        if self.options.retry is not None and self.options.retry.on:
            more["retry_on"] = [*sorted(kind.__qualname__ for kind in self.options.retry.on)]
        return more | {
            "attempts": self.options.attempts,
            "effect": self.effect.value,
            "gate": self.gate_kind,
            "name": self.name,
            "parameters": {**normal(self.parameters)},
            "secrets": {parameter: self.options.secrets[parameter] for parameter in sorted(self.options.secrets)},
            "timeout": None if self.options.timeout is None else float(self.options.timeout),
            "version": self.options.version,
        }

    def prose(self) -> dict[str, Value]:
        """What a model is told, apart from what the tool promises: the descriptions, by path."""
        return {"description": self.description, "parameters": descriptions(self.parameters)}


@overload
def tool(fn: Callable[Q, S], /, **declared: Unpack[Declarations]) -> Tool[Q, S]: ...
@overload
def tool(fn: None = None, /, **declared: Unpack[Declarations]) -> Callable[[Callable[Q, S]], Tool[Q, S]]: ...
def tool(
    fn: Callable[Q, S] | None = None, /, **declared: Unpack[Declarations]
) -> Tool[Q, S] | Callable[[Callable[Q, S]], Tool[Q, S]]:
    """Make a tool of a function, sync or async, with or without options: ``@tool`` and ``@tool(effect="read_only")``.

    Name, description and JSON Schema come from the signature and the docstring (Google, NumPy or reST style). The
    parameter annotated `ToolContext` and those named in ``secrets`` are injected; no model sees or fills them.

    Args:
        fn: The function; a bound method, a partial and a callable object will do.
        **declared: ``name`` and ``description`` for the model, instead of the function's own.
            ``schema``: JSON Schema of the arguments, instead of the derived one.
            ``effect``: an `Effect` or its name. Not declared means ``unqueryable_write``, the dangerous case.
            ``requires_approval``: true, or a predicate on the arguments (JSON values, before conversion).
            ``secrets``: name of the secret for each parameter that gets one.
            ``permissions``: what a run must have been granted (`SubmitOptions`) to use it.
            ``authorize``: asked about each call just before it starts; answers true, or `Denied`; plain or async.
            ``timeout``: seconds that one attempt may take. ``attempts``: how often a call may be tried in all.
            ``query``: for a ``queryable_write``, a function that tells whether a call took place (see `Found`).
            ``retry``: a `Retry`, for waits of its own between attempts and errors that are worth another.
            ``strict``: true has providers hold the model to the schema word by word, where they can.
            ``return_direct``: true ends the run with the tool's result, as its output.
            ``max_result``: how many characters of a result the model is told, 50,000 if not said; None for all.
            ``concurrency``: how many calls may run at once. ``version``: the author's number for its behaviour.
            ``approval_expires``: seconds after which an undecided approval lapses.

    Returns:
        The tool, or a decorator that makes it.

    Raises:
        SchemaError: A parameter cannot be described to a model, or a secret has no parameter; names the parameter.
        DefinitionError: The name or an option cannot be meant.
    """
    if fn is not None:
        return _make(fn, declared, _names_around())

    def decorate(fn: Callable[Q, S]) -> Tool[Q, S]:
        return _make(fn, declared, _names_around())

    return decorate


def _names_around() -> Mapping[str, object]:
    """Local names where the decorator stands: annotations may use classes that are local to a function."""
    frame = inspect.currentframe()
    above = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    return {} if above is None else dict(above.f_locals)


def _make(fn: Callable[Q, S], declared: Declarations, names: Mapping[str, object]) -> Tool[Q, S]:
    given = dict(declared)
    name = given.pop("name", None)
    if name is None:
        name = getattr(underlying(fn), "__name__", "") if callable(fn) else ""
        name = type(fn).__name__ if name == "__call__" else name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(f"tool name {name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$; give one: @tool(name=...)")
    if not callable(fn) or isinstance(fn, Tool):
        raise DefinitionError(f"tool {name}: a tool is made of a function, not of {type(fn).__name__}")
    description, schema = given.pop("description", None), given.pop("schema", None)
    if description is not None and not isinstance(description, str):
        raise DefinitionError(f"tool {name}, description: give a text, not {type(description).__name__}")
    if schema is not None and not isinstance(schema, Mapping):
        raise DefinitionError(f"tool {name}, schema: give a JSON Schema as a mapping, not {type(schema).__name__}")
    options = read_options(name, given)
    signature = read_signature(name, fn, options.secrets, names=names, explicit=schema is not None)
    docstring = read_docstring(fn)
    if schema is not None:
        parameters, reader = _explicit(name, schema, signature, names)
    else:
        described = [describe(name, parameter, names) for parameter in signature.parameters]
        parameters = parameters_schema(described, docstring.parameters)
        required = frozenset(each.parameter.name for each in described if each.parameter.required)
        reader = Reader(name, {each.parameter.name: each.adapter for each in described}, required)
    return Tool(
        name,
        docstring.description if description is None else description,
        parameters,
        fn,
        options,
        signature,
        _query(name, options, signature, names),
        strict_schema(name, parameters) if options.strict else None,
        reader=reader,
    )


def _explicit(
    name: str, given: Mapping[str, object], signature: Signature, names: Mapping[str, object]
) -> tuple[Schema, Reader]:
    schema = explicit_schema(name, given, signature)
    try:
        check = schema_check(schema)
    except ValueError as error:
        raise SchemaError(name, "", f"no valid JSON Schema: {error}") from error
    annotated = {
        parameter.name: None if parameter.annotation is MISSING else describe(name, parameter, names).adapter
        for parameter in signature.parameters
    }
    required = frozenset(parameter.name for parameter in signature.parameters if parameter.required)
    return schema, Reader(name, annotated, required, takes_any=signature.takes_any, check=check)


def _query(name: str, options: ToolOptions, of: Signature, names: Mapping[str, object]) -> Signature | None:
    if options.query is None:
        return None
    secrets = parameters_of(name, options.query).keys() & set(of.secrets)
    signature = read_signature(name, options.query, sorted(secrets), names=names, explicit=True)
    taken = {parameter.name for parameter in of.parameters}
    for parameter in signature.parameters:
        if parameter.required and parameter.name not in taken:
            raise SchemaError(name, parameter.name, "its query asks for it, but the tool has no such parameter")
    return signature
