"""What an agent's answer must be, and what must have been done before it may give it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, TypeAlias

from attrs import Attribute, evolve, field, frozen

from trouper.core.conversation import AI, ToolSpec, Value
from trouper.core.events import Requirement
from trouper.core.exchange import ModelConfig, OutputSchema
from trouper.errors import ArgumentsError, DefinitionError
from trouper.models import Model, OutputSupport, output_support
from trouper.tools import parse_arguments
from trouper.tools._output import Fit, Misfit, OutputShape, output_shape, strict_output, without_nulls
from trouper.tools._shape import descriptions, normal
from trouper_journal import Printable

FINAL_RESULT: Final = "final_result"
"""The tool by which a model hands in its output, in the mode ``tool``."""

Mode: TypeAlias = Literal["native", "tool", "instruction"]

_MODES = ("auto", "native", "tool", "instruction")
_SUPPORT: Final[tuple[OutputSupport, ...]] = ("none", "without_tools", "with_tools")
_CALL_IT = f"When everything else is done, call {FINAL_RESULT} with the final output."

HAND_IN: Final = f"Hand in the final output. {_CALL_IT}"
"""What a model is told of that tool."""


def _check_mode(_: object, __: Attribute[str], value: object) -> None:
    if value not in _MODES:
        raise DefinitionError(f"output, mode: {value!r} is none of {', '.join(_MODES)}")


def _check_rounds(_: object, __: Attribute[int], value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DefinitionError(f"output, rounds: {value!r} is not a whole number of at least 0")


def _check_strict(_: object, __: Attribute[bool | None], value: object) -> None:
    if value not in (None, True, False):
        raise DefinitionError(f"output, strict: {value!r} is neither True, False nor None")


@frozen(slots=False, eq=False, repr=False)
class Output(Printable):
    """A structured output: what the answer must be, and how the model is brought to give it.

    The answer is checked here whatever the model or its provider promised. One that does not fit goes back to the model
    with what is wrong, and the run fails with `OutputInvalid` when that has not helped ``rounds`` times.

    Attributes:
        type: An attrs class, dataclass, TypedDict or pydantic model; any other annotation that a tool's parameter
            takes (``list[int]``, ``Literal["yes", "no"]``); or a JSON Schema, as a mapping.
        mode: ``native``: the provider is told the schema and holds the model to it. ``tool``: the model hands its
            output in by calling ``final_result``. ``instruction``: the schema stands in the instructions. ``auto``:
            native if the model can, with the tools that the agent has; else tool if it has any; else instruction.
        rounds: How often the model is told what is wrong before the run fails.
        strict: Whether the provider shall guarantee the schema, in the modes ``native`` and ``tool``. What may be left
            out is then nullable for the model, and a null left out again here. None asks for it in the mode
            ``native``, where the schema can be said in strict mode.

    Raises:
        DefinitionError: The type cannot be described to a model, or a setting is none.
    """

    type: object
    mode: Literal["auto", "native", "tool", "instruction"] = field(default="auto", validator=_check_mode, kw_only=True)
    rounds: int = field(default=2, validator=_check_rounds, kw_only=True)
    strict: bool | None = field(default=None, validator=_check_strict, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _ = self.offered

    @cached_property
    def shape(self) -> OutputShape:
        """What the output must be."""
        try:
            return output_shape(self.type)
        except DefinitionError as error:
            raise DefinitionError(f"output: {error}") from error

    @cached_property
    def offered(self) -> tuple[Mapping[str, Value], bool]:
        """The schema for providers, and whether they shall guarantee it."""
        schema = self.shape.schema
        if self.strict is False:
            return schema, False
        try:
            return strict_output(self.shape), True
        except DefinitionError as error:
            if self.strict:
                raise DefinitionError(f"output, strict: {error}") from error
            return schema, False


def as_output(given: object) -> Output | None:
    """What was given as an agent's output."""
    return given if given is None or isinstance(given, Output) else Output(given)


def requires_receipt(*tools: str, count: int = 1) -> Requirement:
    """A completion rule: the run may succeed only once calls of a tool have succeeded in it.

    Only a receipt counts that says the call did what was asked; errors and doubts are none.

    Args:
        *tools: The tool's name; of several, a call of any counts.
        count: How many such calls there must be.

    Raises:
        DefinitionError: No tool is named, or the count is not at least 1.
    """
    if not tools or not all(isinstance(tool, str) and tool for tool in tools):
        raise DefinitionError(f"requires_receipt{tools!r}: give the names of one or more tools")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise DefinitionError(f"requires_receipt, count: {count!r} is not a whole number of at least 1")
    return Requirement(tools, count)


def as_requirements(given: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """What was given as an agent's completion rules."""
    if isinstance(given, str | Requirement) or not isinstance(given, Iterable):
        raise DefinitionError('completion: give a list of rules, such as [requires_receipt("close_ticket")]')
    rules = tuple(given)
    for rule in rules:
        if not isinstance(rule, Requirement):
            raise DefinitionError(f"completion: {rule!r} is no rule; use requires_receipt")
    return rules


def choose_mode(agent: str, output: Output, models: Sequence[Model], tools: Sequence[str]) -> Mode:
    """How an agent's models are brought to give an output: by what the least able of them can.

    Raises:
        DefinitionError: The mode that was asked for is not to be had.
    """
    if FINAL_RESULT in tools and output.mode in {"auto", "tool"}:
        raise DefinitionError(f"agent {agent}: with an output, {FINAL_RESULT} is not free as the name of a tool")
    model = min(models, key=lambda model: _SUPPORT.index(output_support(model)))
    support = output_support(model)
    native = support == "with_tools" or (support == "without_tools" and not tools)
    if output.mode == "auto":
        return "native" if native else "tool" if tools else "instruction"
    if output.mode == "native" and not native:
        if support == "without_tools":
            raise DefinitionError(
                f"agent {agent}, output: model {model.name} cannot be held to a schema while it has tools to call; "
                "use mode='tool'"
            )
        raise DefinitionError(
            f"agent {agent}, output: model {model.name} does not say that it can be held to a schema; use another mode"
        )
    return output.mode


def answer_instructions(mode: str, schema: Mapping[str, Value]) -> str:
    """What stands in the instructions about an output that is asked for in this mode; empty where nothing does."""
    return f"Your final answer is {_wanted(schema)}" if mode == "instruction" else ""


def answer_wrap_up(mode: str, schema: Mapping[str, Value]) -> str:
    """What the last request of a run at its limit says, where an output is asked for."""
    told = f"Call {FINAL_RESULT} now." if mode == "tool" else f"Give the final output now: {_wanted(schema)}"
    return f"The step limit is reached and no more tools can be called. {told}"


def _wanted(schema: Mapping[str, Value]) -> str:
    fits = json.dumps(schema, ensure_ascii=False)
    return f"one JSON document that fits this JSON Schema, and nothing else:\n{fits}"


@frozen(slots=False, eq=False, repr=False)
class Answering(Printable):
    """An agent's output with the mode that was chosen for it: what models are told, and how replies are read."""

    output: Output
    mode: Mode

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool by which it is handed in."""
        if not self.output.strict:
            # Providers do not take strict tools beside everything, so that must be asked for.
            return ToolSpec(FINAL_RESULT, HAND_IN, self.output.shape.schema)
        return ToolSpec(FINAL_RESULT, HAND_IN, self.output.offered[0], strict=True)

    @cached_property
    def instructions(self) -> str:
        """What stands in the instructions about it."""
        return answer_instructions(self.mode, self.output.shape.schema)

    @cached_property
    def wrap_up(self) -> str:
        """What the last request of a run at its limit says."""
        return answer_wrap_up(self.mode, self.output.shape.schema)

    @cached_property
    def _wanted(self) -> str:
        return _wanted(self.output.shape.schema)

    def config(self, config: ModelConfig, *, closing: bool) -> ModelConfig:
        """The settings of a request."""
        if self.mode == "native":
            schema, strict = self.output.offered
            return evolve(config, output=OutputSchema(schema, strict=strict))
        if self.mode == "tool" and closing:
            return evolve(config, tool_choice="required")
        return config

    def read_text(self, text: str, *, truncated: bool) -> Fit | Misfit:
        """Read the output out of a reply's text; a misfit says all that the model is to be told."""
        found = self.output.shape.find(text)
        read = found if isinstance(found, Misfit) else self._read(found)
        if isinstance(read, Fit):
            return read
        cut = " It was cut off by its length limit: be shorter." if truncated else ""
        again = _CALL_IT if self.mode == "tool" else f"Answer again with {self._wanted}"
        return Misfit(f"Your answer was not accepted as the final output:\n{read.reason}\n{again}{cut}")

    def read_calls(self, reply: AI, actions: Sequence[str]) -> tuple[str, Fit] | Misfit:
        """Read the output out of those calls of a reply that hand it in; the first that fits counts."""
        wrong: list[str] = []
        for call in reply.tool_calls:
            action = call.id.rpartition("/")[2]
            if action not in actions:
                continue
            read = self._read_call(call.arguments)
            if isinstance(read, Fit):
                return action, read
            wrong.append(read.reason)
        told = "\n".join(dict.fromkeys(wrong))
        return Misfit(f"The final output was not accepted:\n{told}\nMend this and call {FINAL_RESULT} again.")

    def _read(self, document: Value) -> Fit | Misfit:
        shape = self.output.shape
        strict = self.output.offered[1] and (self.mode == "native" or (self.mode == "tool" and self.output.strict))
        return shape.unwrap(without_nulls(shape, document) if strict else document)

    def _read_call(self, arguments: str) -> Fit | Misfit:
        try:
            return self._read(parse_arguments(arguments))
        except ArgumentsError as error:
            return Misfit(f"- {getattr(error, 'reason', error)}")

    def contract(self) -> dict[str, Value]:
        """What callers rely on."""
        output = self.output
        return {
            "schema": {**normal(output.shape.schema)},
            "mode": output.mode,
            "rounds": output.rounds,
            "strict": output.strict,
        }

    def prose(self) -> dict[str, Value]:
        """How the model is told."""
        return {"mode": self.mode, "schema": descriptions(self.output.shape.schema)}
