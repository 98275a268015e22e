"""The handle of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, final

from trouper.core.base import Base
from trouper.core.conversation import Message
from trouper.core.events import Limits, Principal
from trouper.runtime.commands import Commands
from trouper.runtime.run import Run
from trouper.runtime.sessions import SessionView, read, said, standing_of
from trouper.runtime.tasks import SubmitOptions, Task, principal


class SessionHost(Protocol):
    """What a handle needs of its runtime."""

    @property
    def commands(self) -> Commands:
        """Commands on the journal's runs."""
        ...

    def run(self, run: str) -> Run:
        """The handle of a run."""
        ...

    async def send(self, session: str, task: Task, command_id: str | None, *, supersede: bool) -> Run:
        """Put a turn in line."""
        ...


@final
class Session:
    """A conversation with an agent over many runs, by its id. It holds nothing that the journal does not hold.

    Attributes:
        id: The session's id.
        agent: The agent that it is with.
    """

    __slots__ = ("_runtime", "agent", "id")

    def __init__(self, runtime: SessionHost, agent: str, session: str) -> None:
        self._runtime = runtime
        self.agent = agent
        self.id = session

    def __repr__(self) -> str:
        return f"<Session {self.id} with {self.agent}>"

    async def send(
        self,
        input: str | Sequence[Message],
        *,
        command_id: str | None = None,
        limits: Limits | None = None,
        by: Principal | str | None = None,
        supersede: bool = False,
        options: SubmitOptions | None = None,
    ) -> Run:
        """Send a message: the next turn, which is a run of its own that starts from what was said before.

        One turn is under way at a time. A message that is sent meanwhile waits in the journal, also while a call of
        the turn under way waits for a person; it is the next turn when that one has ended, in the order of the sends.
        When this returns, the message is in the journal and will be answered.

        Args:
            input: Text, or messages.
            command_id: Makes the call idempotent within the session, for ever and across processes.
            limits: Limits of this turn instead of the agent's own.
            by: Who sends.
            supersede: Deny all calls of the turn under way that wait for a person, in the same commit; that turn then
                goes on, its model is told, and this message follows when it has ended.
            options: When the turn may begin, once it has come, by when it must have ended, whether it has come or not,
                and under which conditions.

        Raises:
            SessionError: The session is with another agent.
            IdempotencyConflict: The command id was used for something else.
            InvalidValue: The input cannot be journaled, or the state does not fit its keys.
            RuntimeStopped: The runtime is stopping.
            JournalError: The journal could not be written.
        """
        who = None if by is None else principal(by)
        task = Task(self.agent, input, limits, who, options=options or SubmitOptions())
        return await self._runtime.send(self.id, task, command_id, supersede=supersede)

    async def state(self) -> SessionView:
        """The session's turns, and which of them is under way.

        Raises:
            UnknownSession: Nothing was sent to it yet.
        """
        return await read(self._runtime.commands.journal, self.id)

    async def runs(self) -> list[Run]:
        """The runs of all turns, in order; none where nothing was sent yet."""
        if await standing_of(self._runtime.commands.journal, self.id) is None:
            return []
        return [self._runtime.run(turn.run) for turn in (await self.state()).turns]

    async def history(self) -> tuple[Message, ...]:
        """All that was said in the turns that are over, in order, whether it is still handed to the model or not."""
        commands = self._runtime.commands
        if await standing_of(commands.journal, self.id) is None:
            return ()
        return await said(commands.histories, await self.state())

    async def window(self) -> tuple[Message, ...]:
        """What the next turn would start from if the session ended here: the history, or what compaction left of it."""
        commands = self._runtime.commands
        found = await standing_of(commands.journal, self.id)
        last = found[1].last if found is not None else None
        return () if last is None else await commands.histories.messages(Base((last,)))
