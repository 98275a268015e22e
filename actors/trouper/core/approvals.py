"""What it takes to let a call run: on what grounds, who may agree, how many, and what of that is there so far.

Pure, and free of the agent's code: the same rules hold in the process that drives a run, in that of whoever decides,
and in the fold, which counts no decision that went round them.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from attrs import frozen

from trouper.core.terms import Principal
from trouper_journal import Plain, Printable, content_digest

Broken: TypeAlias = Literal["eligible", "separation", "unnamed", "unknown_requester"]
"""A rule that a decision would break."""


@frozen(slots=False, repr=False, eq=False)
class Asking(Plain):
    """How people are asked, as far as it is a fact and not about persons.

    Attributes:
        quorum: How many different principals must approve the same call.
        separation: Whether whoever asked for the run is barred from approving.
        expires: After how many nanoseconds the request lapses; None where the tool says.
    """

    quorum: int = 1
    separation: bool = False
    expires: int | None = None


@frozen(repr=False)
class Grounds(Printable):
    """Why a call may run, may not, or must be asked for.

    Attributes:
        policy: The policy that said so, such as ``agent.approvals[0] AutoApprove``; empty where the tool alone did.
        rules: Ids of the standing rules that stood in for people.
        asks: How people are asked, one after the other as requests lapse; empty for one person, anybody.
    """

    policy: str = ""
    rules: tuple[str, ...] = ()
    asks: tuple[Asking, ...] = ()


NO_GROUNDS: Final = Grounds()
ANYBODY: Final = Asking()


@frozen(slots=False, repr=False, eq=False)
class Vote(Plain):
    """One principal's decision on a call as it stood then.

    Attributes:
        voter: Keyed digest of the principal's id; empty where a single decision suffices.
        edited: Whether it came with arguments of its own.
    """

    voter: bytes
    decision: Literal["approve", "deny"]
    digest: bytes
    by: Principal | None
    reason: str | None
    edited: bool


@frozen(slots=False, repr=False, eq=False)
class Consent(Plain):
    """What a call needs, and what of it is there.

    Attributes:
        grounds: Why it may run, may not, or must be asked for.
        reason: The same in words.
        people: Names of those who may decide, for each of the grounds' requests; an empty one lets anybody. None
            where they were erased.
        level: Which of the requests stands now.
        votes: Decisions on the call as it stands now.
        editor: Who changed the arguments last.
        planned: Digest of the model's own call, where the arguments were changed.
    """

    grounds: Grounds = NO_GROUNDS
    reason: str | None = None
    people: tuple[tuple[str, ...], ...] | None = ()
    level: int = 0
    votes: tuple[Vote, ...] = ()
    editor: Principal | None = None
    planned: bytes = b""

    @property
    def asking(self) -> Asking:
        """How people are asked now."""
        return self.grounds.asks[self.level] if self.level < len(self.grounds.asks) else ANYBODY

    @property
    def eligible(self) -> tuple[str, ...] | None:
        """Names of those who may decide now; empty for anybody, None where they were erased."""
        if self.people is None:
            return None
        return self.people[self.level] if self.level < len(self.people) else ()

    @property
    def approvals(self) -> int:
        """How many different principals have approved the call as it stands."""
        return len({vote.voter for vote in self.votes if vote.decision == "approve"})

    @property
    def escalates(self) -> bool:
        """Whether others are asked when the present request lapses."""
        return self.level + 1 < len(self.grounds.asks)


NO_CONSENT: Final = Consent()


def voter_digest(salt: bytes, who: Principal) -> bytes:
    """What tells voters apart when their names are erased.

    By id alone: one person who comes in by two ways must not count as two.
    """
    return content_digest(salt, ["voter", who.id])


def objection(
    consent: Consent, requester: Principal | None, by: Principal | None, decision: Literal["approve", "deny"]
) -> Broken | None:
    """The rule that this decision by this principal would break, or None."""
    asking, eligible = consent.asking, consent.eligible
    if by is None and (eligible or asking.separation or asking.quorum > 1):
        return "unnamed"
    if by is not None and eligible and by.id not in eligible:
        return "eligible"
    if decision == "approve" and asking.separation:
        # Nobody can be told apart from somebody unknown.
        if requester is None:
            return "unknown_requester"
        if by is not None and by.id == requester.id:
            return "separation"
    return None
