"""What a runtime is opened with, checked, and what it is made of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen

from trouper._clock import Clock, SystemClock
from trouper._ids import Entropy, SystemEntropy
from trouper.agent import Agent
from trouper.core.events import DriverStarted
from trouper.errors import DefinitionError, InvalidValue, UnknownAgent
from trouper.runtime.billing import check_prices
from trouper.runtime.commands import Commands
from trouper.runtime.desk import Desk
from trouper.runtime.ledger import Ledgers
from trouper.runtime.options import RuntimeOptions
from trouper.runtime.stage import Stage
from trouper.sub_agents import SubAgent
from trouper_journal import Journal, Plain, Value

if TYPE_CHECKING:
    from trouper.runtime.restoring import HeadKeeper


def by_name(agents: Sequence[Agent]) -> dict[str, Agent]:
    """The agents, and all sub-agents that they have among their tools, by name.

    Raises:
        DefinitionError: Two different agents have one name, or something is no agent.
    """
    known: dict[str, Agent] = {}
    if isinstance(agents, Agent):
        raise DefinitionError(f"agents: give a sequence, such as [{agents.name}], not an Agent")
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


@frozen(slots=False, repr=False, eq=False)
class Toolboxes(Plain):
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


def known_agent(agents: Mapping[str, Agent], name: object) -> None:
    """Refuse an agent that nobody gave to the runtime.

    Raises:
        UnknownAgent: There is none of that name.
    """
    if isinstance(name, Agent):
        raise UnknownAgent(f"agents are asked by name: give {name.name!r}, not the Agent")
    if not isinstance(name, str) or name not in agents:
        names = ", ".join(agents) or "none"
        raise UnknownAgent(f"no agent called {name!r} is registered here; agents: {names}")


@asynccontextmanager
async def furnished(
    journal: Journal,
    agents: Sequence[Agent],
    *,
    secrets: Mapping[str, str] | None,
    clock: Clock | None,
    entropy: Entropy | None,
    options: RuntimeOptions | None,
) -> AsyncIterator[tuple[Commands, Desk, Stage]]:
    """Take the journal, and open all that a runtime is made of; see `Runtime.over`."""
    options = options or RuntimeOptions()
    clock = clock or SystemClock()
    entropy = entropy or SystemEntropy()
    known = by_name(agents)
    check_prices(known, options.prices)
    async with journal.drive(options.node) as fence:
        stage = Stage(options.max_active, options.drain)
        keeper = await _head_keeper(journal)
        # The epoch in each record's meta leads here, to the process that wrote it.
        await journal.append("system/driver", [DriverStarted(fence, options.node)], fence=fence)
        commands = Commands(journal, clock, entropy, Toolboxes(known).validate)
        desk = Desk(
            journal=journal,
            histories=commands.histories,
            ledgers=Ledgers(commands.state, commands.below, stage.ring_for),
            rulebook=commands.rulebook,
            policies=options.approvals,
            fence=fence,
            clock=clock,
            random=entropy.fraction,
            agents=known,
            secrets=KnownSecrets(secrets or {}),
            drift=options.drift,
            audience=stage,
            authorize=options.authorize,
            prices=options.prices,
            parked=None if keeper is None else await keeper.settle(fence),
        )
        beside = [] if keeper is None else [partial(keeper.keep, desk)]
        first = None if keeper is None else partial(keeper.release, desk)
        room = options.model_concurrency
        try:
            async with stage.open(desk, grace=options.grace, model_concurrency=room, beside=beside, first=first):
                yield commands, desk, stage
        finally:
            if keeper is not None and stage.failure is None and desk.parked is None:
                await keeper.end()


async def _head_keeper(journal: Journal) -> HeadKeeper | None:
    """What looks after the side file of a journal in a file."""
    if journal.path is None:
        return None
    # Loaded here alone: whoever imports the package does not wait for it.
    from trouper.runtime.restoring import HeadKeeper

    return await HeadKeeper.begin(journal)
