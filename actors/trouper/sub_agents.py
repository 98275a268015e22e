"""An agent as a tool of another: its calls are runs of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol, TypedDict, Unpack

from attrs import field, fields, frozen

from trouper.core.conversation import Value
from trouper.core.definition import Definition
from trouper.core.effects import Effect
from trouper.core.family import Returns
from trouper.errors import DefinitionError
from trouper.tools import Tool, tool

_GRAVITY = (Effect.READ_ONLY, Effect.QUERYABLE_WRITE, Effect.IDEMPOTENT_WRITE, Effect.UNQUERYABLE_WRITE)
"""Effect classes, from the harmless one to the dangerous one."""


class Callee(Protocol):
    """What a sub-agent is made of: an `Agent`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def description(self) -> str:
        """What it is for."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """What it may call."""
        ...

    @property
    def definition(self) -> Definition:
        """Its definition document."""
        ...


class Delegation(TypedDict, total=False):
    """The keyword arguments of `Agent.as_tool` beside name and description."""

    input: object
    include_history: bool
    output_key: str | None
    return_steps: bool
    handoff: bool
    requires_approval: bool | Callable[[Mapping[str, Value]], bool]
    permissions: Sequence[str]
    grants: Sequence[str] | None


@frozen(slots=False, eq=False, repr=False)
class SubAgent(Tool[..., object]):
    """An agent that another agent can call, made by `Agent.as_tool`. It stands among an agent's tools.

    Attributes:
        agent: The agent.
        returns: What its caller gets of it.
        include_history: Whether it is shown its caller's conversation.
        output_key: The key of its caller's named state that its answer goes to.
        grants: What it has of its caller's grants; None for all of them.
    """

    agent: Callee = field(kw_only=True)
    returns: Returns = field(default="answer", kw_only=True)
    include_history: bool = field(default=False, kw_only=True)
    output_key: str | None = field(default=None, kw_only=True)
    grants: tuple[str, ...] | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"<SubAgent {self.name}>"

    def contract(self) -> dict[str, Value]:
        """What it promises: as a tool, and as the agent that it is."""
        agent: dict[str, Value] = {
            "name": self.agent.name,
            "contract": self.agent.definition.contract_digest,
            "returns": self.returns,
            "include_history": self.include_history,
            "output_key": self.output_key,
        }
        if self.grants is not None:
            agent["grants"] = [*self.grants]
        return {**Tool.contract(self), "agent": agent}

    def prose(self) -> dict[str, Value]:
        """What models are told: the caller of it, and the agent itself."""
        return {**Tool.prose(self), "agent": self.agent.definition.prose_digest}


def sub_agent(
    agent: Callee, name: str | None = None, description: str | None = None, **options: Unpack[Delegation]
) -> SubAgent:
    """See `Agent.as_tool`."""
    _check(agent.name, options)
    asked, handoff = options.get("input", str), options.get("handoff", False)
    given = _wrapped(asked) if isinstance(asked, Mapping) else None
    declare = tool(
        name=agent.name if name is None else name,
        description=_description(agent) if description is None else description,
        schema=given,
        effect=_effect(agent),
        requires_approval=options.get("requires_approval", False),
        attempts=1,
        return_direct=handoff,
        permissions=options.get("permissions", ()),
    )
    made = declare(_ask(agent.name, asked, given=given is not None))
    parts = {attribute.alias or attribute.name: getattr(made, attribute.name) for attribute in fields(Tool)}
    return SubAgent(
        **parts,
        agent=agent,
        returns="steps" if options.get("return_steps", False) else "answer",
        # Who takes a conversation over must know it.
        include_history=options.get("include_history", handoff),
        output_key=options.get("output_key"),
        grants=None if (grants := options.get("grants")) is None else tuple(sorted(set(grants))),
    )


def _check(name: str, options: Mapping[str, object]) -> None:
    def refuse(option: str, reason: str) -> DefinitionError:
        return DefinitionError(f"agent {name} as a tool, {option}: {reason}")

    if unknown := options.keys() - Delegation.__annotations__.keys():
        raise refuse(min(unknown), f"there is no such option; options: {', '.join(Delegation.__annotations__)}")
    for option in ("return_steps", "include_history", "handoff"):
        if not isinstance(options.get(option, False), bool):
            raise refuse(option, "give true or false")
    if not _is_names(options.get("grants")):
        raise refuse("grants", 'give a sequence of names, such as ("crm:read",)')
    if not isinstance(options.get("output_key", ""), str | None):
        raise refuse("output_key", "give the name of a key of the caller's state")


def _is_names(value: object) -> bool:
    if value is None or isinstance(value, str) or not isinstance(value, Sequence):
        return value is None
    return all(isinstance(each, str) and each for each in value)


def _description(agent: Callee) -> str:
    return agent.description or f"Ask the agent {agent.name}."


def _effect(agent: Callee) -> Effect:
    """The most dangerous of what it may call: that is what a call of it may come to."""
    return max((each.effect for each in agent.tools), key=_GRAVITY.index, default=Effect.READ_ONLY)


def _wrapped(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema of an object whose one field ``input`` has the schema given."""
    inner = dict(schema)
    outer: dict[str, object] = {"type": "object", "properties": {"input": inner}, "required": ["input"]}
    # References are from the root of a document.
    for definitions in ("$defs", "definitions"):
        if definitions in inner:
            outer[definitions] = inner.pop(definitions)
    return outer


def _ask(name: str, asked: object, *, given: bool) -> Callable[..., object]:
    async def ask(input: object) -> NoReturn:  # noqa: ARG001 -- it is there for its schema
        raise DefinitionError(f"agent {name} is called by other agents; ask it yourself by Runtime.submit")

    ask.__annotations__ = {"input": object if given else asked, "return": object}
    if given:
        del ask.__annotations__["input"]
    return ask
