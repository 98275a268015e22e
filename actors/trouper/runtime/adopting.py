"""A person lets a run go on under today's definition of its agent."""

from __future__ import annotations

from trouper.core.events import DefinitionAdopted, Principal
from trouper.core.evolve import evolve
from trouper.core.status import status
from trouper.errors import UnknownAgent, VersionConflict
from trouper.runtime.commands import Commands
from trouper.runtime.desk import Desk
from trouper.runtime.domains import domain_of
from trouper.runtime.planning import definition_writes
from trouper.tools import defaults_of
from trouper_journal import Write


async def adopt(commands: Commands, desk: Desk, run: str, by: Principal) -> bool:
    """Adopt today's definition for a run; see `Runtime.adopt`.

    Returns:
        Whether there was anything to adopt.

    Raises:
        UnknownRun: No such run.
        UnknownAgent: Its agent is not registered here.
    """
    while True:
        state = await commands.state(run)
        agent = desk.agents.get(state.agent)
        if agent is None:
            raise UnknownAgent(f"run {run} belongs to agent {state.agent!r}, which is not registered here")
        definition = agent.definition
        if state.ended or not state.started or state.definition == definition.digest:
            return False
        event = DefinitionAdopted(
            definition.digest,
            definition.contract_digest,
            definition.prose_digest,
            by,
            agent.terms,
            defaults_of(agent.state),
        )
        own = Write(
            f"run/{run}",
            [event],
            expected=state.version,
            label=status(evolve(state, event)).label,
            domain=domain_of(state),
        )
        if documents := definition_writes(desk, agent):
            try:
                await desk.journal.commit(documents, fence=desk.fence)
            except VersionConflict:
                desk.recorded.add(definition.digest)
        try:
            await desk.journal.commit([own])
        except VersionConflict:
            continue
        return True


async def adopt_all(commands: Commands, desk: Desk, run: str, by: Principal) -> list[str]:
    """Adopt today's definitions for a run and all runs below it; those for which there was anything to adopt."""
    below = [child.run for child in await commands.children(run) if not child.ended]
    return [each for each in (run, *below) if await adopt(commands, desk, each, by)]
