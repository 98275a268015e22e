"""What an agent is: a frozen value that names its instructions, tools, model and limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar, Unpack

from attrs import Attribute, field, frozen

from trouper.approvals import Policy, check_policies, policies
from trouper.binding import Bind
from trouper.core.conversation import ToolSpec, Value
from trouper.core.definition import Definition, define
from trouper.core.events import NO_TERMS, Limits, Requirement, Terms
from trouper.core.exchange import ModelConfig
from trouper.errors import DefinitionError
from trouper.history import History
from trouper.hooks import Hook, cast_of, hooks_in, points_in
from trouper.models import Model, identity
from trouper.output import FINAL_RESULT, Answering, Output, as_output, as_requirements, choose_mode
from trouper.sub_agents import Delegation, SubAgent, sub_agent
from trouper.tools import StateKey, Tool, check_keys, to_value
from trouper_journal import Printable, plain_digest

_T = TypeVar("_T")

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _check_name(_: Agent, __: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise DefinitionError(f"agent name {value!r}: use 1 to 64 letters, digits, '_' or '-'")


def _must_be(kind: type[_T]) -> Callable[[Agent, Attribute[_T], _T], None]:
    """A validator: at the door, because it would else come out when a run is under way."""

    def check(agent: Agent, attribute: Attribute[_T], value: object) -> None:
        if not isinstance(value, kind):
            raise DefinitionError(
                f"agent {agent.name}, {attribute.name}: give a {kind.__name__}, not {type(value).__name__}"
            )

    return check


def _check_model(agent: Agent, _: Attribute[Model], model: object) -> None:
    if isinstance(model, type) or not isinstance(model, Model) or not isinstance(model.name, str):
        raise DefinitionError(
            f"agent {agent.name}, model: {model!r} is not a model; give an object with a name and agenerate, such as "
            'OpenAIModel("gpt-5.5")'
        )


def _check_history(agent: Agent, _: Attribute[History | None], history: object) -> None:
    if history is not None and not isinstance(history, History):
        raise DefinitionError(f"agent {agent.name}, history: give a History, not {type(history).__name__}")


def _tools(given: Iterable[Tool]) -> tuple[Tool, ...]:
    if isinstance(given, Tool) or not isinstance(given, Iterable):
        raise DefinitionError(f"an agent's tools: give a sequence of tools, not {type(given).__name__}")
    return tuple(given)


def _check_tools(agent: Agent, _: Attribute[Sequence[Tool]], tools: Sequence[Tool]) -> None:
    seen: set[str] = set()
    for tool in tools:
        given: object = tool
        if isinstance(given, Agent):
            raise DefinitionError(f"agent {agent.name}: agent {given.name} is not a tool; give {given.name}.as_tool()")
        if not isinstance(tool, Tool):
            raise DefinitionError(f"agent {agent.name}: {tool!r} is not a tool; decorate it with @tool")
        if not _NAME.fullmatch(tool.name):
            raise DefinitionError(
                f"agent {agent.name}: tool name {tool.name!r}: use 1 to 64 letters, digits, '_' or '-'"
            )
        if tool.name in seen:
            raise DefinitionError(f"agent {agent.name}: two tools are called {tool.name}")
        seen.add(tool.name)


def _check_state(agent: Agent, _: Attribute[Mapping[str, StateKey]], keys: object) -> None:
    check_keys(agent.name, keys)
    for tool in agent.tools:
        if isinstance(tool, SubAgent) and tool.output_key is not None and tool.output_key not in agent.state:
            known = ", ".join(agent.state) or "none"
            reason = f"{tool.name} writes to state key {tool.output_key!r}, which it has not (keys: {known})"
            raise DefinitionError(f"agent {agent.name}: {reason}")


def _check_output(agent: Agent, _: Attribute[Output | None], output: Output | None) -> None:
    if output is not None:
        choose_mode(agent.name, output, [agent.model, *agent.cast.values()], [*agent.toolbox])


def _check_completion(agent: Agent, _: Attribute[Sequence[Requirement]], rules: Sequence[Requirement]) -> None:
    for name in (name for rule in rules for name in rule.tools):
        if name not in agent.toolbox:
            raise DefinitionError(f"agent {agent.name}, completion: it has no tool called {name!r}")


def _check_choice(agent: Agent, _: Attribute[Bind | None], bind: object) -> None:
    if bind is not None and not callable(bind):
        raise DefinitionError(f"agent {agent.name}, bind: give a function of the step, not {type(bind).__name__}")
    if agent.output is not None and (direct := [tool.name for tool in agent.tools if tool.options.return_direct]):
        raise DefinitionError(
            f"agent {agent.name}: {direct[0]} returns directly, which would end a run without its output"
        )
    choice = agent.config.tool_choice
    words = {None, "auto", "none", "required", FINAL_RESULT if agent.output is not None else None}
    if choice not in words and choice not in agent.toolbox:
        raise DefinitionError(f"agent {agent.name}, config: tool_choice names {choice!r}, which is no tool of it")


def _check_approvals(agent: Agent, _: Attribute[Sequence[Policy]], given: object) -> None:
    check_policies(f"agent {agent.name}, approvals", given)


@frozen(slots=False, eq=False, repr=False)
class Agent(Printable):
    """An agent's definition: a value that can be shared by any number of runs and runtimes.

    Attributes:
        name: Unique within a runtime; what `Runtime.submit` names.
        instructions: Standing orders, given to the model before the conversation and not part of it.
        tools: What it may call.
        model: What answers.
        limits: How far a run may go, unless a submit says otherwise.
        config: Settings of each model call.
        history: How much of a session's conversation is handed to its next turn; None for all of it.
        approvals: Policies that let calls run, refuse them, or have people asked; the first that speaks for a call
            decides. Calls that none speaks for are asked for where their tool requires approval.
        state: The keys of its runs' named state, which tools and hooks read and write.
        output: What its answer must be, if it is to be more than text: a type, or an `Output`.
        completion: What must have been done before a run may succeed; see `requires_receipt`.
        description: What it is for, told to agents that have it as a tool.
        hooks: What is called at the points of its runs, in this order; see `trouper.hooks`.
        models: Further models by name, for hooks to choose.
        bind: Chooses the tools of each model call by name, of those above: ``bind(step) -> names``, plain or async (see
            `StepView`); None offers all of them always.

    Raises:
        DefinitionError: A bad name, something that is not a tool, two tools of one name, or anything else that is not
            what it must be.
    """

    name: str = field(validator=_check_name)
    instructions: str = field(default="", validator=_must_be(str))
    tools: Sequence[Tool] = field(default=(), converter=_tools, validator=_check_tools, kw_only=True)
    model: Model = field(validator=_check_model, kw_only=True)
    limits: Limits = field(factory=Limits, validator=_must_be(Limits), kw_only=True)
    config: ModelConfig = field(factory=ModelConfig, validator=_must_be(ModelConfig), kw_only=True)
    history: History | None = field(default=None, validator=_check_history, kw_only=True)
    approvals: Sequence[Policy] = field(default=(), converter=policies, validator=_check_approvals, kw_only=True)
    state: Mapping[str, StateKey] = field(factory=dict, validator=_check_state, kw_only=True)
    output: Output | None = field(default=None, converter=as_output, validator=_check_output, kw_only=True)
    completion: Sequence[Requirement] = field(
        default=(), converter=as_requirements, validator=_check_completion, kw_only=True
    )
    hooks: Sequence[Hook] = field(default=(), converter=hooks_in, kw_only=True)
    models: Mapping[str, Model] = field(factory=dict, kw_only=True)
    description: str = field(default="", validator=_must_be(str), kw_only=True)
    bind: Bind | None = field(default=None, validator=_check_choice, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _ = self.cast

    def as_tool(
        self, name: str | None = None, description: str | None = None, **options: Unpack[Delegation]
    ) -> SubAgent:
        """This agent as a tool for another: ``Agent("editor", tools=[researcher.as_tool()], ...)``.

        Each call is a run of its own, with this agent's instructions, tools, model and limits. It begins with the
        call's input alone and, unless told otherwise, sees nothing else of its caller's conversation. The caller gets
        its final answer; where it fails or is cancelled, an error that says what is known. Calls of one reply run side
        by side.

        Args:
            name: What the caller's model calls it; the agent's name if left out.
            description: What the caller's model is told of it; the agent's description if left out.
            **options: ``input``: what a call takes under the name ``input``: a type (also attrs, a dataclass, a
                TypedDict or a pydantic model) or a JSON Schema; text if left out. Anything but text reaches the agent
                as JSON.
                ``include_history``: whether the agent is shown its caller's conversation before its input.
                ``return_steps``: whether the caller gets all of the run's messages, as a JSON array, not only its
                answer.
                ``output_key``: a key of the caller's ``state`` that the answer goes to, through the key's reducer.
                ``handoff``: the agent takes the conversation over: it is shown it, unless ``include_history`` says
                otherwise, and its answer ends the caller's run as the output. Where it does not succeed, or was not
                called alone, its caller goes on.
                ``requires_approval``: true, or a predicate on the arguments, as for `tool`.
                ``permissions``: what a run must have been granted to call it, as for `tool`.
                ``grants``: what its runs have of their caller's grants; all of them if left out, never more.

        Raises:
            SchemaError: The input cannot be described to a model.
            DefinitionError: The name or an option cannot be meant.
        """
        return sub_agent(self, name, description, **options)

    @cached_property
    def toolbox(self) -> dict[str, Tool]:
        """The tools by name."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them."""
        return tuple(tool.spec() for tool in self.tools)

    @cached_property
    def identities(self) -> dict[str, bytes]:
        """For each tool the digest of what it promises."""
        return {tool.name: plain_digest(tool.contract()) for tool in self.tools}

    @cached_property
    def cast(self) -> dict[str, Model]:
        """The further models by name: its own, and those that its hooks bring."""
        return cast_of(self.name, self.models, self.hooks)

    @cached_property
    def terms(self) -> Terms:
        """What the rules must know of it."""
        if self.answering is None and not self.completion and not self.hooks and self.bind is None:
            return NO_TERMS
        answering = self.answering
        return Terms(
            hooks=points_in(self.hooks),
            output=answering is not None,
            output_tool=FINAL_RESULT if answering is not None and answering.mode == "tool" else "",
            requires=tuple(self.completion),
            rounds=NO_TERMS.rounds if answering is None else answering.output.rounds,
            binds=self.bind is not None,
        )

    @cached_property
    def answering(self) -> Answering | None:
        """How its output is asked for and read; None where any text is one."""
        if self.output is None:
            return None
        models = [self.model, *self.cast.values()]
        return Answering(self.output, choose_mode(self.name, self.output, models, [*self.toolbox]))

    @cached_property
    def definition(self) -> Definition:
        """The definition document with its digests."""
        contracts: dict[str, Value] = {tool.name: tool.contract() for tool in self.tools}
        prose: dict[str, Value] = {tool.name: tool.prose() for tool in self.tools}
        # What an agent does not use does not stand in its document, so that its digests stay.
        used: dict[str, Value] = {}
        told: dict[str, Value] = {}
        if self.state:
            used["state"] = {name: key.contract() for name, key in self.state.items()}
        if self.history is not None:
            told["history"] = self.history.to_value()
        if self.answering is not None:
            used["output"], told["output"] = self.answering.contract(), self.answering.prose()
        if self.bind is not None:
            used["bind"] = True
        if self.completion:
            used["completion"] = [[list[Value](rule.tools), rule.count] for rule in self.completion]
        if self.hooks:
            used["hooks"] = [to_value(hook.identity()) for hook in self.hooks]
        if self.approvals:
            used["approvals"] = [policy.contract() for policy in self.approvals]
        return define(
            contract={"name": self.name, "tools": contracts, "limits": self.limits.to_value(), **used},
            prose={
                "instructions": self.instructions,
                "tools": prose,
                "model": dict(identity(self.model)),
                "config": self.config.to_value(),
                **told,
                **({"models": {name: dict(identity(model)) for name, model in self.cast.items()}} if self.cast else {}),
            },
        )
