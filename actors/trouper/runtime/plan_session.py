"""What a session's turn starts from: the conversation so far, cut down where it is too long."""

from __future__ import annotations

from attrs import frozen

from trouper.agent import Agent
from trouper.core import events as ev
from trouper.core import wording
from trouper.core.compaction import Cut, cut
from trouper.core.conversation import Human, Message, System, pretty
from trouper.core.digests import extend_chain
from trouper.core.state import RunState
from trouper.runtime.desk import Desk
from trouper.runtime.histories import Histories
from trouper.runtime.launches import Plan, SendSummary
from trouper_journal import Plain


@frozen(repr=False, eq=False)
class TurnPlanner(Plain):
    """Plans what comes before a turn's start.

    Attributes:
        agent: Today's definition; None where the runtime has no agent of that name.
    """

    desk: Desk
    agent: Agent | None

    async def before_start(self, state: RunState) -> Plan | None:
        """What must be recorded before the run is taken up; None where its history is short enough.

        A plan without launches is complete: the run can be taken up right behind it.
        """
        turn, history = state.turn, self.agent.history if self.agent is not None else None
        if turn is None or turn.compaction is not None or state.base is None or history is None:
            return None
        pieces = await self.desk.histories.pieces(state.base.refs, whole=True)
        found = cut(pieces, history.tokens, max_tokens=history.max_tokens, keep_last=history.keep_last)
        if found is None:
            return None
        if history.summarise is None:
            return Plan((ev.ContextCompacted(found.kept, found.dropped, len(found.lost)),))
        return _ask(state, found, 1, history.summarise.name)

    async def summarise(self, state: RunState, attempt: int) -> Plan:
        """Ask again, if there is anybody to ask."""
        compaction = state.turn.compaction if state.turn is not None else None
        if self.agent is None or compaction is None or state.base is None:
            return Plan()
        small = self.agent.history.summarise if self.agent.history is not None else None
        if small is None:
            return self.compact(state)
        lost = await lost_messages(self.desk.histories, state)
        return _ask(state, Cut(compaction.kept, compaction.dropped, lost), attempt, small.name)

    def compact(self, state: RunState) -> Plan:
        """Go on without a summary."""
        compaction = state.turn.compaction if state.turn is not None else None
        if compaction is None:
            return Plan()
        return Plan(
            (
                ev.ContextCompacted(
                    compaction.kept, compaction.dropped, compaction.messages, reason=compaction.reason or None
                ),
            )
        )


def _ask(state: RunState, found: Cut, attempt: int, model: str) -> Plan:
    chain = b""
    for message in found.lost:
        chain = extend_chain(chain, state.salt, message)
    event = ev.SummaryRequested(attempt, chain, found.kept, found.dropped, len(found.lost), model)
    return Plan((event,), (SendSummary(attempt),))


async def lost_messages(histories: Histories, state: RunState) -> tuple[Message, ...]:
    """The messages that a turn is not handed any more."""
    compaction = state.turn.compaction if state.turn is not None else None
    if compaction is None or state.base is None:
        return ()
    return (await histories.messages(state.base, whole=True))[: compaction.messages]


def summary_request(lost: tuple[Message, ...]) -> tuple[Message, ...]:
    """What the summarising model is shown: the conversation as a text, so that no call in it needs an answer."""
    return (System("summarise", wording.SUMMARISE), Human("conversation", pretty(lost)))
