"""Which tools the next model call has."""

from __future__ import annotations

from trouper.agent import Agent
from trouper.binding import ask_bind
from trouper.core import events as ev
from trouper.core.state import RunState
from trouper.runtime.desk import Desk


async def choose_tools(desk: Desk, agent: Agent, state: RunState) -> ev.ToolsBound:
    """What the agent's own choice comes to, as an event."""
    if agent.bind is None:
        # The terms are of a definition that chose them; today's does not.
        return ev.ToolsBound(state.index, tuple(agent.toolbox))
    tools, error = await ask_bind(agent.bind, state, keys=agent.state, known=tuple(agent.toolbox), clock=desk.clock)
    return ev.ToolsBound(state.index, tools, bool(error), error)
