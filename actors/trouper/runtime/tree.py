"""The tree actor: owns a root run and everything below it; restarts its agent where that fails."""

from __future__ import annotations

from collections.abc import Callable

from trouper.errors import ActorError, TrouperError
from trouper.kit import Actor, Ref, Supervision, Terminated
from trouper.runtime.agent import AgentActor
from trouper.runtime.protocol import AgentMessage, TreeMessage, Wake

_SUPERVISION = Supervision(on_failure="restart", when_exhausted="stop")


class Tree(Actor[TreeMessage]):
    """Supervises the agent of one root run.

    Args:
        run: The run's id.
        make: Makes the agent; called again for each restart.
        gave_up: Called when the agent has failed too often.
    """

    def __init__(self, run: str, make: Callable[[], AgentActor], gave_up: Callable[[Exception], None]) -> None:
        self._run = run
        self._make = make
        self._gave_up = gave_up
        self._agent: Ref[AgentMessage] | None = None

    async def started(self) -> None:
        """Start the agent and watch it."""
        self._agent = await self.context.spawn(self._make, name="agent", mailbox=8, supervision=_SUPERVISION)
        self.context.watch(self._agent)

    async def receive(self, message: TreeMessage) -> None:
        """Pass news on; end with the agent."""
        match message:
            case Wake():
                self._pass_on(message)
            case Terminated():
                if message.cause is not None:
                    self._gave_up(TrouperError(f"run {self._run}: its agent failed again and again: {message.cause!r}"))
                self.context.stop()

    def _pass_on(self, message: Wake) -> None:
        if self._agent is None:
            return
        try:
            self._agent.tell_nowait(message)
        except ActorError:
            # Full: it holds an earlier word of news, and the agent reads the stream after that. Stopped: it is stuck,
            # or the journal is broken, for it does not leave while word is on its way.
            return
