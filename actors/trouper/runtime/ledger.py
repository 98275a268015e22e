"""The budget ledger: what a whole tree of runs has spent and reserved, and whether there is more to be had.

Each run's own spending is folded in its own state and nowhere else. A ledger holds, for one root, what each run of its
tree has spent by its last commit, or will have by the commit that it is about to make; it is built from the streams,
and dropped when no run of the tree is in memory. Asking and granting is one step without a pause between, so that two
runs never get the same last token. A run without parent and children has no ledger.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final, Literal, TypeAlias, final

import trio
from attrs import define, frozen

from trouper.core.budget import Refusal, Spent
from trouper.core.family import parent_of, root_of
from trouper.core.limits import Limits, Resource
from trouper.core.spending import bound
from trouper.core.state import RunState
from trouper_journal import Plain, Printable

Load: TypeAlias = Callable[[str], Awaitable[RunState]]
"""Folds a run by its id."""

Runs: TypeAlias = Callable[[str], Awaitable[list[str]]]
"""The ids of all runs below a root."""

Ring: TypeAlias = Callable[[str], None]
"""Has a run take another turn; never waits."""

BELOW: Final = "~"


def lineage(run: str) -> Iterator[str]:
    """A run and all above it, from the run upwards."""
    while run:
        yield run
        run = parent_of(run)


@frozen(slots=False, repr=False, eq=False)
class Asked(Plain):
    """What a run wants to spend.

    Attributes:
        run: The run.
        after: What it would have spent itself by then, reserves included.
        kind: A model call, or a call of a tool.
        tool: The tool's name.
        extra: A run's last request at its own limit comes on top of that; never of an ancestor's.
    """

    run: str
    after: Spent
    kind: Literal["model", "tool"]
    tool: str = ""
    extra: bool = False


@define(eq=False, repr=False)
class _Account(Printable):
    """What a run has spent.

    Attributes:
        version: The version of its stream that this is of.
        spent: By that version, reserves included.
        settled: The same without what a request under way has reserved.
        granted: What it will have spent by its next commit; None where it has asked for nothing.
    """

    version: int
    limits: Limits | None
    deadline: int | None
    spent: Spent
    settled: Spent
    granted: Spent | None = None

    @classmethod
    def of(cls, state: RunState, version: int) -> _Account:
        """The account of a run as it stands."""
        return cls(version, state.limits, state.budget.deadline, bound(state), state.own_spent)

    @property
    def bound(self) -> Spent:
        return self.spent if self.granted is None else self.granted


@final
class Ledger:
    """The ledger of one tree.

    Args:
        root: The root's id.
        load: Folds a run.
        below: Lists the runs below a root.
        ring: Has a run take another turn.
    """

    def __init__(self, root: str, load: Load, below: Runs, ring: Ring) -> None:
        self._ring = ring
        self._parked: set[str] = set()
        self._root = root
        self._load = load
        self._below = below
        self._accounts: dict[str, _Account] = {}
        self._whole = False
        self._building = trio.Lock()

    def note(self, state: RunState) -> None:
        """What a run has spent, durably; what it was granted is settled by that."""
        known = self._accounts.get(state.run)
        if known is None or known.version <= state.version:
            self._accounts[state.run] = _Account.of(state, state.version)
            if state.ended:
                self._parked.discard(state.run)
            self._look_again(state.run)

    def _look_again(self, settled: str) -> None:
        """A run's reserve may be free: whoever else waits for that asks again."""
        for run in self._parked - {settled}:
            self._parked.discard(run)
            self._ring(run)

    def give_back(self, run: str) -> None:
        """What a run was granted did not become durable, and never will."""
        account = self._accounts.get(run)
        if account is not None and account.granted is not None:
            account.granted = None
            self._look_again(run)

    def leave(self, run: str) -> None:
        """A run leaves memory; what it was granted and has not committed may be durable: it is kept."""
        account = self._accounts.get(run)
        if account is not None and account.granted is not None:
            account.version, account.spent, account.granted = 0, account.granted, None

    def close(self, last: str) -> None:
        """The last run leaves memory: whoever waits asks the next ledger."""
        self._look_again(last)

    async def prepare(self, state: RunState) -> bool:
        """Have everything at hand that `ask` needs; False where no run from here to the root has a limit to share."""
        async with self._building:
            if state.run not in self._accounts:
                # Part of this state may not be durable yet: whatever is noted later replaces it.
                self._accounts[state.run] = _Account.of(state, 0)
            for run in lineage(state.run):
                await self._known(run)
            if not any(self._shares(run) for run in lineage(state.run)):
                return False
            if not self._whole:
                for run in await self._below(self._root):
                    await self._known(run)
                self._whole = True
        return True

    async def _known(self, run: str) -> _Account:
        if run not in self._accounts:
            # Whoever commits meanwhile notes it, with a higher version.
            self.note(await self._load(run))
        return self._accounts[run]

    def _shares(self, run: str) -> bool:
        limits = self._accounts[run].limits
        return limits is not None and limits.shared

    async def refresh(self, run: str) -> None:
        """Read a run anew: somebody may have raised its limits since it was last in memory."""
        state = await self._load(run)
        account = self._accounts.get(run)
        if account is not None and account.granted is None and account.version <= state.version:
            self.note(state)
        elif account is not None:
            account.limits, account.deadline = state.limits, state.budget.deadline

    def owner_of_cost(self, run: str) -> Refusal | None:
        """Whose limit of cost is nearest to a run that has no price, as a refusal."""
        for owner in lineage(run):
            limits = self._accounts[owner].limits
            if limits is not None and limits.max_cost is not None:
                spent = sum(account.bound.cost for account in self._within(owner))
                return Refusal("cost", owner, limits.max_cost, spent, None, limits.on_limit, unpriced=True)
        return None

    def left(self, run: str) -> tuple[int | None, int | None]:
        """Tokens and nano-units left of the run's own limits and all above, reserves aside; None for no limit."""
        tokens: int | None = None
        cost: int | None = None
        for owner in lineage(run):
            limits = self._accounts[owner].limits
            if limits is None or not limits.reckons:
                continue
            accounts = [account.settled for account in self._within(owner)]
            if limits.max_tokens is not None:
                free = limits.max_tokens - sum(spent.tokens for spent in accounts)
                tokens = free if tokens is None else min(tokens, free)
            if limits.max_cost is not None:
                free = limits.max_cost - sum(spent.cost for spent in accounts)
                cost = free if cost is None else min(cost, free)
        return tokens, cost

    def running_out(
        self, run: str, told: Collection[tuple[str, Resource, int]], now: int
    ) -> tuple[str, Resource, int, int] | None:
        """A soft limit above a run that is reached and that its model was not told of: whose, what, limit and spent."""
        for owner in lineage(parent_of(run)):
            account = self._accounts[owner]
            limits = account.limits
            if limits is None or limits.soft is None:
                continue
            for resource, limit, spent in self._used(owner, account, limits, now):
                if spent >= limits.soft * limit and (owner, resource, limit) not in told:
                    return owner, resource, limit, spent
        return None

    def _used(self, owner: str, account: _Account, limits: Limits, now: int) -> Iterator[tuple[Resource, int, int]]:
        """What is limited, and what is spent of it; without reserves of tokens and cost, most of which come back."""
        members = list(self._within(owner))
        sums: list[tuple[Resource, int | None, int]] = [
            ("model_calls", limits.max_model_calls, sum(each.bound.model_calls for each in members)),
            ("tool_calls", limits.max_tool_calls, sum(each.bound.tool_calls for each in members)),
            ("tokens", limits.max_tokens, sum(each.settled.tokens for each in members)),
            ("cost", limits.max_cost, sum(each.settled.cost for each in members)),
        ]
        if account.deadline is not None and limits.nanoseconds is not None:
            sums.append(("seconds", limits.nanoseconds, now - account.deadline + limits.nanoseconds))
        return ((resource, limit, spent) for resource, limit, spent in sums if limit is not None)

    def ask(self, asked: Asked, now: int) -> Refusal | Literal["later"] | None:
        """Grant what fits every limit from the run to the root, or say whose it does not fit; never waits.

        What does not fit only because of what others have reserved may fit ``later``: the run is rung when it may.
        """
        later = False
        for owner in lineage(asked.run):
            if owner == asked.run and asked.extra:
                continue
            account = self._accounts[owner]
            if account.limits is not None and account.limits.shared:
                refusal = self._check(owner, account, account.limits, asked, now)
                if isinstance(refusal, Refusal):
                    return refusal
                later = later or refusal is not None
        if later:
            self._parked.add(asked.run)
            return "later"
        self._parked.discard(asked.run)
        self._accounts[asked.run].granted = asked.after
        return None

    def _check(
        self, owner: str, account: _Account, limits: Limits, asked: Asked, now: int
    ) -> Refusal | Literal["later"] | None:
        deadline, time = account.deadline, limits.nanoseconds
        if owner != asked.run and deadline is not None and time is not None and now >= deadline:
            return Refusal("seconds", owner, time, now - deadline + time, None, limits.on_limit)
        others = [each for run, each in self._members(owner) if run != asked.run]
        later = False
        checks: list[tuple[Resource, str | None, int | None, Callable[[Spent], int]]]
        if asked.kind == "tool":
            tool = asked.tool
            checks = [
                ("tool_calls", tool, limits.tool_calls.get(tool), lambda spent: spent.by_tool.get(tool, 0)),
                ("tool_calls", None, limits.max_tool_calls, lambda spent: spent.tool_calls),
            ]
        else:
            checks = [
                ("model_calls", None, limits.max_model_calls, lambda spent: spent.model_calls),
                ("tokens", None, limits.max_tokens, lambda spent: spent.tokens),
                ("cost", None, limits.max_cost, lambda spent: spent.cost),
            ]
        for resource, tool_name, limit, measure in checks:
            if limit is None:
                continue
            elsewhere = sum(measure(each.bound) for each in others)
            if elsewhere + measure(asked.after) <= limit:
                continue
            # What is counted was made use of when it was granted; only of what is reserved something may come back.
            settled = sum(measure(each.settled) for each in others)
            if resource in {"tokens", "cost"} and settled + measure(asked.after) <= limit:
                later = True
            else:
                so_far = elsewhere + measure(self._accounts[asked.run].bound)
                return Refusal(resource, owner, limit, so_far, tool_name, limits.on_limit)
        return "later" if later else None

    def _members(self, owner: str) -> Iterator[tuple[str, _Account]]:
        prefix = owner + BELOW
        for run, account in self._accounts.items():
            if run == owner or run.startswith(prefix):
                yield run, account

    def _within(self, owner: str) -> Iterator[_Account]:
        return (account for _, account in self._members(owner))

    def has_more(self, refusal: Refusal) -> bool:
        """Whether the limit that something was refused by is higher now."""
        account = self._accounts.get(refusal.owner)
        limits = account.limits if account is not None else None
        if limits is None:
            return False
        values: dict[Resource, int | None] = {
            "steps": limits.max_steps,
            "model_calls": limits.max_model_calls,
            "tool_calls": limits.max_tool_calls,
            "tokens": limits.max_tokens,
            "cost": limits.max_cost,
            "seconds": limits.nanoseconds,
        }
        limit = values[refusal.resource]
        return limit is not None and limit > refusal.limit


@final
class Ledgers:
    """The ledgers of the trees in memory."""

    def __init__(self, load: Load, below: Runs, ring: Ring) -> None:
        self._ring = ring
        self._load = load
        self._below = below
        self._ledgers: dict[str, Ledger] = {}
        self._members: dict[str, set[str]] = {}

    async def of(self, state: RunState) -> Ledger | None:
        """The ledger of a run's tree, ready to be asked; None where nothing in it is shared."""
        root = root_of(state.run)
        ledger = self._ledgers.get(root)
        if ledger is None:
            ledger = self._ledgers[root] = Ledger(root, self._load, self._below, self._ring)
        self._members.setdefault(root, set()).add(state.run)
        return ledger if await ledger.prepare(state) else None

    def known(self, run: str) -> Ledger | None:
        """The ledger of a run's tree, if there is one in memory."""
        return self._ledgers.get(root_of(run)) if self._ledgers else None

    def committed(self, state: RunState) -> None:
        """A run's state is durable."""
        ledger = self.known(state.run)
        if ledger is not None:
            ledger.note(state)

    def conflicted(self, run: str) -> None:
        """A run's commit was refused: nothing of it became durable."""
        ledger = self.known(run)
        if ledger is not None:
            ledger.give_back(run)

    def left(self, run: str) -> None:
        """A run leaves memory."""
        root = root_of(run)
        members = self._members.get(root)
        if members is None:
            return
        members.discard(run)
        self._ledgers[root].leave(run)
        if not members:
            del self._members[root]
            self._ledgers.pop(root).close(run)
