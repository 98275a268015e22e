"""What a runtime is opened with, checked: its agents, and the secrets of their tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from trouper.agent import Agent
from trouper.errors import DefinitionError, InvalidValue
from trouper.sub_agents import SubAgent
from trouper_journal import Value


def by_name(agents: Sequence[Agent]) -> dict[str, Agent]:
    """The agents, and all sub-agents that they have among their tools, by name.

    Raises:
        DefinitionError: Two different agents have one name, or something is no agent.
    """
    known: dict[str, Agent] = {}
    for agent in agents:
        if isinstance(agent, Agent) and agent.name in known:
            raise DefinitionError(f"two agents are called {agent.name}")
        _add(known, agent)
    called = list(known.values())
    while called:
        below = [
            tool.agent.name for tool in called.pop().tools if isinstance(tool, SubAgent) and _add(known, tool.agent)
        ]
        called += [known[name] for name in below]
    return known


def _add(known: dict[str, Agent], agent: object) -> bool:
    """Take an agent in; False where it is in already."""
    if not isinstance(agent, Agent):
        raise DefinitionError(f"{agent!r} is not an agent")
    if agent.name in known:
        if known[agent.name] is not agent:
            raise DefinitionError(
                f"two different agents are called {agent.name}: one of them is a tool of another agent"
            )
        return False
    try:
        # Settings are free-form: what cannot be written down must not come out when a run is under way.
        _ = agent.definition
    except InvalidValue as error:
        raise DefinitionError(f"agent {agent.name} cannot be journaled: {error}") from error
    known[agent.name] = agent
    return True


@frozen
class Toolboxes:
    """The tools of all agents, for edits."""

    agents: Mapping[str, Agent]

    def validate(self, agent: str, tool: str, arguments: Mapping[str, Value]) -> None:
        """Refuse what the tool of today would refuse."""
        known = self.agents.get(agent)
        found = known.toolbox.get(tool) if known is not None else None
        if found is not None:
            found.validate(arguments)


class KnownSecrets:
    """Secrets by name, which do not show themselves."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known

    def __call__(self, name: str) -> str:
        """The secret of that name."""
        return self._known[name]

    def __repr__(self) -> str:
        return "<secrets>"
