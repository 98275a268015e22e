"""Terms that events, state and commands share: who, how far, and what a model asked for."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from attrs import frozen

from trouper.core.limits import Limits as Limits
from trouper_journal import Plain, Printable, Value

FailureKind: TypeAlias = Literal[
    "model",
    "step_limit",
    "truncated",
    "output",
    "incomplete",
    "refused",
    "state",
    "deadline",
    "hook",
    "binding",
    "budget",
]
"""Why a run failed; `RunFailed` says what each means."""


@frozen(slots=False, repr=False, eq=False)
class Principal(Plain):
    """Who did something.

    Attributes:
        id: Name within ``via``, such as ``maria``.
        kind: A person, a service, a policy or an agent.
        via: How the claim reached us, such as ``api`` or ``os-user:maria``.
        assurance: Whether it was only said (``asserted``), checked (``authenticated``) or proven (``signed``).
    """

    id: str
    kind: Literal["person", "service", "policy", "agent"] = "person"
    via: str = "api"
    assurance: Literal["asserted", "authenticated", "signed"] = "asserted"


@frozen(slots=False, repr=False, eq=False)
class Requirement(Plain):
    """Evidence without which a run may not succeed: receipts of calls that did what was asked.

    Attributes:
        tools: A call of any of these counts.
        count: How many such calls there must be.
    """

    tools: tuple[str, ...]
    count: int = 1


@frozen(repr=False)
class Terms(Printable):
    """What the rules must know of an agent's definition; pinned in the run's own stream.

    Attributes:
        hooks: The points at which the agent has hooks, such as ``before_model``.
        output: Whether the last reply must be read as a structured output.
        output_tool: The call that hands the output in; empty where it is the reply's text.
        requires: Evidence without which the run may not succeed.
        rounds: How often the model is told what is wrong with its answer before the run fails.
        binds: Whether the tools of each model call are chosen anew.
    """

    hooks: tuple[str, ...] = ()
    output: bool = False
    output_tool: str = ""
    requires: tuple[Requirement, ...] = ()
    rounds: int = 2
    binds: bool = False

    def hands_in(self, tool: str) -> bool:
        """Whether a call of that name hands in the output."""
        return bool(self.output_tool) and tool == self.output_tool


NO_TERMS: Final = Terms()
"""Of an agent that has no more than instructions, tools and a model."""


@frozen(repr=False, eq=False)
class AskedCall(Plain):
    """A call as the model asked for it, raw."""

    name: str
    arguments: str
    provider_id: str | None = None
    extra: dict[str, Value] | None = None
