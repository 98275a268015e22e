"""Makes a standing rule of an approval: in the same commit, or of one that was given before."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from trouper.approvals import Scope
from trouper.core.commands import Judgement, find_action
from trouper.core.family import root_of
from trouper.core.rule_events import APPROVALS, RuleAdded
from trouper.core.rules import may_add
from trouper.core.state import Action, RunState
from trouper.errors import ApprovalError, InvalidValue
from trouper.runtime.domains import domain_of
from trouper.runtime.rulebook import RuleBook
from trouper_journal import Plain, Value, Write, canonical


@frozen(slots=False, repr=False, eq=False)
class Remembered(Plain):
    """An approval that reaches further than its call.

    Attributes:
        rule: Id for the standing rule, should there be none yet.
        now: Now (ns UTC).
    """

    book: RuleBook
    action: str
    judgement: Judgement
    scope: Scope
    rule: str
    now: int

    async def writes(self, state: RunState) -> list[Write]:
        """What is to be appended to the standing rules, given the run as it is after the decision.

        Raises:
            ApprovalError: The principal has not approved the call, or the scope does not cover it.
        """
        action = find_action(state, self.action)
        by = self.judgement.by
        may_add(state, action, by)
        name = f"{state.run}/{action.action}"
        book = await self.book.read()
        if any(
            rule.action == name and rule.by is not None and rule.by.id == by.id and not rule.revoked
            for rule in book.rules.values()
        ):
            return []
        added = RuleAdded(
            rule=self.rule,
            action=name,
            tool=action.tool,
            identity=action.identity,
            arguments=self._arguments(name, action),
            agent=None if self.scope.agent == "*" else self.scope.agent or state.agent,
            root=root_of(state.run) if self.scope.run else None,
            session=await self._session(name, state) if self.scope.session else None,
            until=self.scope.until,
            uses=self.scope.uses,
            by=by,
            reason=self.judgement.reason,
        )
        # A rule for one run or session is erased with it; others stand for themselves.
        own = domain_of(state) if self.scope.run or self.scope.session else None
        return [Write(APPROVALS, [added], expected=book.version, domain=own)]

    async def _session(self, name: str, state: RunState) -> str:
        session = await self.book.session_of(state)
        if session is None:
            raise ApprovalError(f"action {name}: its run is in no session that a scope could be for")
        return session

    def _arguments(self, name: str, action: Action) -> dict[str, Value]:
        """The arguments that calls like this one must share with it."""
        own: Mapping[str, Value] = action.arguments or {}
        if self.scope.until is not None and self.scope.until <= self.now:
            raise ApprovalError(f"action {name}: the scope's time is over already")
        wanted = own if self.scope.arguments is None else self.scope.arguments
        for argument, value in wanted.items():
            if argument not in own or canonical(own[argument]) != canonical(value):
                raise ApprovalError(f"action {name}: the scope does not cover the call itself: {argument} is not that")
        return dict(wanted)


def remembered(book: RuleBook, action: str, judgement: Judgement, scope: object, *, rule: str, now: int) -> Remembered:
    """Check what is to be remembered.

    Raises:
        InvalidValue: It is no scope, or no approval.
    """
    if not isinstance(scope, Scope):
        raise InvalidValue("remember", f"{type(scope).__name__} is not a Scope")
    if judgement.decision != "approve":
        raise InvalidValue("remember", "only an approval can reach further than its call")
    return Remembered(book, action, judgement, scope, rule, now)
