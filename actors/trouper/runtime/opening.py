"""What a runtime is opened with, checked: its agents, and the secrets of their tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from trouper.agent import Agent
from trouper.errors import DefinitionError, InvalidValue
from trouper_journal import Value


def by_name(agents: Sequence[Agent]) -> dict[str, Agent]:
    """The agents by name.

    Raises:
        DefinitionError: Two agents of one name, or one that cannot be written down.
    """
    known: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise DefinitionError(f"{agent!r} is not an agent")
        if agent.name in known:
            raise DefinitionError(f"two agents are called {agent.name}")
        try:
            # Settings are free-form: what cannot be written down must not come out when a run is under way.
            _ = agent.definition
        except InvalidValue as error:
            raise DefinitionError(f"agent {agent.name} cannot be journaled: {error}") from error
        known[agent.name] = agent
    return known


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
