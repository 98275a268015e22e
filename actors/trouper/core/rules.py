"""Standing rules, folded: which there are, what each is for, and how often it may still be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from attrs import field, frozen

from trouper.core.rule_events import RuleAdded, RuleRevoked, RuleUsed
from trouper.core.state import Action, RunState, known
from trouper.core.terms import Principal
from trouper.errors import ApprovalError, UnknownRule
from trouper_journal import Erased, Plain, Value, canonical


@frozen(slots=False, repr=False, eq=False)
class StandingRule(Plain):
    """A standing rule as it stands.

    Attributes:
        rule: Its id.
        action: The call that it was made of.
        tool: The tool that it is for.
        identity: Digest of what the tool promised then; a tool that changed since is another one.
        agent: The agent that it is for; None for any.
        root: The run, with all below it, that it is for; None for any.
        session: The session whose runs, with all below them, it is for; None for any run.
        until: When it ends (ns UTC); None for never.
        uses: How many calls it lets run; None for any number.
        arguments: Arguments that must be these; None where they were erased, and then it fits no call.
        by: Who made it.
        reason: Why.
        used: The calls that it let run, where they are counted.
        revoked: Whether it was revoked.
        revoked_by: Who revoked it.
    """

    rule: str
    action: str
    tool: str
    identity: bytes
    agent: str | None
    root: str | None
    session: str | None
    until: int | None
    uses: int | None
    arguments: Mapping[str, Value] | None
    by: Principal | None
    reason: str | None
    used: frozenset[str] = frozenset()
    revoked: bool = False
    revoked_by: Principal | None = None

    @property
    def left(self) -> int | None:
        """How many more calls it lets run; None for any number."""
        return None if self.uses is None else max(self.uses - len(self.used), 0)

    def stands(self, now: int) -> bool:
        """Whether it can still be used at this moment (ns UTC)."""
        return not self.revoked and (self.until is None or now < self.until) and self.left != 0


@frozen(slots=False, repr=False, eq=False)
class Book(Plain):
    """All standing rules of a journal.

    Attributes:
        version: How far the stream is folded.
        rules: By id, oldest first.
    """

    version: int = 0
    rules: Mapping[str, StandingRule] = field(factory=dict)


@frozen(slots=False, repr=False, eq=False)
class Planned(Plain):
    """A call that was planned and needs people's leave.

    Attributes:
        action: Its full id.
        session: The session that its root run has a turn in, if any.
    """

    action: str
    session: str | None
    agent: str
    tool: str
    identity: bytes
    arguments: Mapping[str, Value]


def evolve_book(book: Book, event: object) -> Book:
    """One event on.

    Raises:
        TypeError: It is not an event of standing rules.
    """
    rules = dict(book.rules)
    match event:
        case RuleAdded():
            # The first of that id stands: nobody widens somebody's rule by adding it once more.
            rules.setdefault(event.rule, _added(event))
        case RuleRevoked():
            found = rules.get(event.rule)
            if found is not None and not found.revoked:
                rules[event.rule] = attrs.evolve(found, revoked=True, revoked_by=known(event.by, None))
        case RuleUsed():
            found = rules.get(event.rule)
            if found is not None:
                rules[event.rule] = attrs.evolve(found, used=found.used | {event.action})
        case _:
            raise TypeError(f"{type(event).__name__} is not an event of standing rules")
    return Book(book.version + 1, rules)


def _added(event: RuleAdded) -> StandingRule:
    return StandingRule(
        rule=event.rule,
        action=event.action,
        tool=event.tool,
        identity=event.identity,
        agent=event.agent,
        root=event.root,
        session=event.session,
        until=event.until,
        uses=event.uses,
        arguments=None if isinstance(event.arguments, Erased) else event.arguments,
        by=known(event.by, None),
        reason=known(event.reason, None),
    )


def fitting(book: Book, call: Planned, *, now: int, taken: Iterable[tuple[str, str]] = ()) -> list[StandingRule]:
    """The rules that this call may run by, oldest first.

    Args:
        book: The rules.
        call: The call.
        now: Now (ns UTC).
        taken: Uses that are planned and not in the book yet, as pairs of rule and action.
    """
    pending: dict[str, set[str]] = {}
    for rule, action in taken:
        pending.setdefault(rule, set()).add(action)
    return [
        rule
        for rule in book.rules.values()
        if rule.stands(now) and _fits(rule, call) and _has_room(rule, pending.get(rule.rule, set()))
    ]


def _has_room(rule: StandingRule, pending: set[str]) -> bool:
    return rule.uses is None or len(rule.used | pending) < rule.uses


def _fits(rule: StandingRule, call: Planned) -> bool:
    root = call.action.partition("/")[0].partition("~")[0]
    return (
        rule.by is not None
        and rule.tool == call.tool
        and rule.identity == call.identity
        and rule.agent in {None, call.agent}
        and rule.root in {None, root}
        and rule.session in {None, call.session}
        and rule.arguments is not None
        and all(name in call.arguments and _same(value, call.arguments[name]) for name, value in rule.arguments.items())
    )


def _same(one: Value, other: Value) -> bool:
    # True is 1 and 1 is 1.0 to Python; to whoever approved, they are not.
    return canonical(one) == canonical(other)


# ---- what people may do


def may_add(state: RunState, action: Action, by: Principal) -> None:
    """Check that somebody may make a standing rule of a call.

    Raises:
        ApprovalError: They have not approved it as it stands.
    """
    votes = action.consent.votes
    if not any(vote.decision == "approve" and vote.by is not None and vote.by.id == by.id for vote in votes):
        who = f"only who approved it can let everything like it run, and {by.id} has not"
        raise ApprovalError(f"action {state.run}/{action.action}: {who}")


def revoke_rule(book: Book, rule: str, *, by: Principal, reason: str | None) -> RuleRevoked | None:
    """End a standing rule; None where it is over already.

    Raises:
        UnknownRule: There is none of that id.
    """
    found = book.rules.get(rule)
    if found is None:
        raise UnknownRule(f"there is no standing rule {rule} in this journal")
    return None if found.revoked else RuleRevoked(rule, by, reason)
