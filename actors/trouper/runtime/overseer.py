"""The overseer: starts the agents of runs, and is told when one has failed too often to be started again."""

from __future__ import annotations

from collections.abc import Callable

from trouper.errors import TrouperError
from trouper.kit import Actor, ActorSystem, Ref, Supervision, Terminated
from trouper.runtime.agent import AgentActor
from trouper.runtime.protocol import AgentMessage

# An agent rebuilds everything from its run's stream, so that a restart costs nothing but time.
_SUPERVISION = Supervision(on_failure="restart", when_exhausted="stop")
_MAILBOX = 8


class Overseer(Actor[Terminated]):
    """Watches all agents.

    Args:
        gave_up: Called with a run whose agent has failed too often, and with why.
    """

    def __init__(self, gave_up: Callable[[str, Exception], None]) -> None:
        self._gave_up = gave_up
        self._begun = 0

    def begin(self, system: ActorSystem, run: str, make: Callable[[], AgentActor]) -> Ref[AgentMessage]:
        """Start a run's agent.

        Args:
            system: Where it lives.
            run: The run's id.
            make: Makes the agent; called again for each restart.
        """
        self._begun += 1
        name = f"run:{run}:{self._begun}"
        agent = system.spawn_nowait(make, name=name, mailbox=_MAILBOX, supervision=_SUPERVISION)
        self.context.watch(agent)
        return agent

    async def receive(self, message: Terminated) -> None:
        """Tell of an agent that was given up."""
        if message.cause is not None:
            run = message.name.rpartition("/")[2].split(":")[1]
            self._gave_up(run, TrouperError(f"run {run}: its agent failed again and again: {message.cause!r}"))
