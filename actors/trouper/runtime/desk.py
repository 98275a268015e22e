"""What the actors of one runtime share: the journal and its fence, the clock, who is who, and who is waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from attrs import Attribute, define, field, frozen

from trouper._clock import Clock
from trouper.agent import Agent
from trouper.approvals import Policy
from trouper.core.prices import Price
from trouper.core.state import RunState
from trouper.errors import DefinitionError, JournalRolledBack
from trouper.kit import Ref
from trouper.runtime.broadcast import Broadcast
from trouper.runtime.histories import Histories
from trouper.runtime.ledger import Ledgers
from trouper.runtime.protocol import ApproverMessage, ExecutorMessage, ModelMessage
from trouper.runtime.receipts import Receipts
from trouper.runtime.rulebook import RuleBook
from trouper.tools import Authorize, StateKeys
from trouper_journal import Journal, Plain, Printable


def _check_policy(_: object, attribute: Attribute[str], value: object) -> None:
    if value not in ("wait", "adopt"):
        raise DefinitionError(f"drift, {attribute.name}: {value!r} is neither 'wait' nor 'adopt'")


@frozen(slots=False, repr=False, eq=False)
class DriftPolicy(Plain):
    """What to do when an agent is not defined as it was when a run began.

    Attributes:
        contract: For schemas, effects, gates, limits and tools: ``wait`` for somebody to adopt, or ``adopt``.
        prose: For instructions, descriptions, model and settings.

    Raises:
        DefinitionError: Another word than those two.
    """

    contract: str = field(default="wait", validator=_check_policy)
    prose: str = field(default="adopt", validator=_check_policy)


class Secrets(Protocol):
    """Where secrets come from."""

    def __call__(self, name: str) -> str:
        """The secret of that name.

        Raises:
            LookupError: There is none.
        """
        ...


class Audience(Protocol):
    """Who must know how runs fare."""

    def ended(self, state: RunState) -> None:
        """The run is over, durably."""
        ...

    def reading(self, run: str) -> None:
        """The run's agent is about to read its stream: whatever word of news was sent to it is heeded by that."""
        ...

    def has_read(self, run: str, version: int) -> None:
        """The run's agent has read its stream up to this version."""
        ...

    def appended(self, run: str) -> None:
        """Another run's agent appended to this one's stream: it has something to do now."""
        ...

    def finished(self, child: str, parent: str, version: int) -> None:
        """A child has ended, and its parent knows by this version of its stream."""
        ...

    def left(self, run: str, version: int) -> bool:
        """The run has nothing to do now; False if it must stay because word of news is on its way to it.

        Args:
            run: The run's id.
            version: The version of its stream that it knows.
        """
        ...

    def alarm(self, run: str, moment: int | None) -> None:
        """The run has something to do at this moment (ns UTC), or (None) only when something comes."""
        ...

    def stuck(self, run: str, error: Exception) -> None:
        """The run cannot be driven by this process; the journal is as it was."""
        ...

    def broken(self, error: Exception) -> None:
        """The journal cannot be written: nothing may be driven any more."""
        ...


def further_model(agent: str, model: str) -> str:
    """The key of one of an agent's models in `Desk.models`; its own, where ``model`` is empty."""
    # The name of an agent has no colon in it.
    return f"{agent}:{model}" if model else agent


@define(eq=False, repr=False)
class Desk(Printable):
    """The shared surroundings of a runtime's actors.

    Attributes:
        histories: What runs start from.
        ledgers: What trees of runs have spent.
        prices: Price entries by the name of the model.
        fence: The epoch that every driver commit carries.
        random: A random number in [0, 1), for jitter.
        receipts: How calls of forked runs ended.
        rulebook: The standing rules.
        policies: Approval policies that come before those of every agent.
        recorded: Digests of the definition documents known to be in the journal.
        broadcast: Tells whoever listens how runs fare.
        authorize: Asked about each call just before it starts.
        parked: Why no run may be driven until somebody has accepted it; None where all may.
        draining: Set when the runtime is about to stop: record what comes in, begin nothing.
    """

    journal: Journal
    histories: Histories
    rulebook: RuleBook
    fence: int
    clock: Clock
    random: Callable[[], float]
    agents: Mapping[str, Agent]
    secrets: Secrets
    drift: DriftPolicy
    audience: Audience
    ledgers: Ledgers
    models: dict[str, Ref[ModelMessage]] = field(factory=dict)
    summarisers: dict[str, Ref[ModelMessage]] = field(factory=dict)
    executors: dict[tuple[str, str], Ref[ExecutorMessage]] = field(factory=dict)
    approver: Ref[ApproverMessage] | None = None
    receipts: Receipts = field(init=False)
    policies: Sequence[Policy] = ()
    recorded: set[str] = field(factory=set)
    broadcast: Broadcast = field(factory=Broadcast)
    draining: bool = False
    authorize: Authorize | None = None
    prices: Mapping[str, Price] = field(factory=dict)
    parked: JournalRolledBack | None = None

    def price(self, agent: str, asked: str, answered: str | None = None) -> Price | None:
        """The price of a request.

        Args:
            agent: The agent's name.
            asked: The model that a hook chose; empty for the agent's own.
            answered: The name that the model gave itself; its entry is looked for first.
        """
        if not self.prices:
            return None
        if answered is not None and (entry := self.prices.get(answered)) is not None:
            return entry
        known = self.agents.get(agent)
        if known is None:
            return None
        model = known.cast.get(asked) if asked else known.model
        return self.prices.get(asked if model is None else model.name)

    def state_keys(self, agent: str) -> StateKeys:
        """The keys of an agent's named state; none where there is no such agent here."""
        known = self.agents.get(agent)
        return known.state if known is not None else {}

    @receipts.default
    def _receipts(self) -> Receipts:
        return Receipts(self.journal)
