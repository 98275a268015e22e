"""Approval policies: who or what lets a call run, in a chain, and how far an approval reaches.

An agent has a chain of them, and a runtime may have one that comes before every agent's. They are tried in order, and
the first that has something to say about a call decides. What it said is journaled with the call's plan.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

from attrs import evolve, field, frozen

from trouper._moments import nanoseconds
from trouper.core.approvals import NO_GROUNDS, Asking, Grounds
from trouper.core.conversation import Value
from trouper.core.terms import Principal
from trouper.errors import DefinitionError
from trouper_journal import Plain, check_value

SECOND = 1_000_000_000

# About thirty years: a moment that far ahead can still be written down.
_LONGEST = 10**9


@frozen(slots=False, repr=False, eq=False)
class ProposedCall(Plain):
    """A call that a model wants to make, as policies see it.

    Attributes:
        action: Its id, and the effect key.
        agent: The agent's name.
        tool: The tool's name.
        arguments: As JSON values; a copy.
        effect: The tool's effect class.
        requester: Who asked for the run, if anybody said so.
        requires_approval: Whether the tool itself asks for approval of this call.
    """

    action: str
    agent: str
    tool: str
    arguments: Mapping[str, Value]
    effect: str
    requester: Principal | None
    requires_approval: bool


When: TypeAlias = Callable[[ProposedCall], bool]
"""Whether a policy speaks for a call. It must have no effects; where it raises, people are asked."""


def _tools(given: Iterable[str] | None) -> Sequence[str] | None:
    # A text is a sequence of letters to Python; it is refused below.
    return given if given is None or isinstance(given, str) else tuple(given)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST


def _refusal(policy: object, name: str, why: str) -> DefinitionError:
    return DefinitionError(f"{type(policy).__name__}, {name}: {why}")


@frozen(slots=False, kw_only=True, repr=False, eq=False)
class Policy(Plain):
    """What all policies have in common: which calls they speak for, and why.

    A policy with neither ``tools`` nor ``when`` speaks for every call whose tool requires approval.

    Attributes:
        tools: Names of the tools that it speaks for; None for any.
        when: Says of a call whether it speaks for it; None for always.
        reason: Why; journaled with each call that it decides.

    Raises:
        DefinitionError: One of them cannot be meant.
    """

    tools: Sequence[str] | None = field(default=None, converter=_tools)
    when: When | None = None
    reason: str = ""

    def __attrs_post_init__(self) -> None:
        tools: object = self.tools
        if tools is not None and not (isinstance(tools, tuple) and tools and all(_is_text(name) for name in tools)):
            raise _refusal(self, "tools", "give a sequence of tools' names, or leave it out")
        if self.when is not None and not callable(self.when):
            raise _refusal(self, "when", "give a function of the call")
        reason: object = self.reason
        if not isinstance(reason, str):
            raise _refusal(self, "reason", "give a text")

    def speaks_for(self, call: ProposedCall) -> bool:
        """Whether it decides this call.

        Raises:
            Exception: What ``when`` raised, or a TypeError where it did not answer with a boolean.
        """
        if self.tools is None and self.when is None:
            return call.requires_approval
        if not self.names(call):
            return False
        if self.when is None:
            return True
        answer: object = self.when(evolve(call, arguments=copy.deepcopy(dict(call.arguments))))
        if not isinstance(answer, bool):
            raise TypeError(f"{type(answer).__name__} is not a boolean")
        return answer

    def names(self, call: ProposedCall) -> bool:
        """Whether it may speak for the call's tool."""
        return self.tools is None or call.tool in self.tools

    def contract(self) -> dict[str, Value]:
        """It as a plain value, for the agent's definition document."""
        return {
            "policy": type(self).__name__,
            "tools": None if self.tools is None else list(self.tools),
            "when": None if self.when is None else getattr(self.when, "__qualname__", type(self.when).__name__),
            "reason": self.reason,
        }


@frozen(slots=False, kw_only=True)
class AutoApprove(Policy):
    """Lets calls run without asking anybody, also those whose tool requires approval.

    ``AutoApprove(tools=["pay"], when=lambda call: call.arguments["amount"] < 100, reason="petty cash")``
    """


@frozen(slots=False, kw_only=True)
class AutoDeny(Policy):
    """Refuses calls; the model is told, with the reason."""


def _names(given: Sequence[str] | Mapping[str, Sequence[str]]) -> Sequence[str] | Mapping[str, Sequence[str]]:
    if isinstance(given, Mapping):
        return {role: names if isinstance(names, str) else tuple(names) for role, names in given.items()}
    return given if isinstance(given, str) else tuple(given)


@frozen(slots=False, kw_only=True)
class People(Policy):
    """Asks people, and waits for them durably.

    ``People(quorum=2, from_=("maria", "otto", "ida"), separation=True, expires=3600)``

    Attributes:
        quorum: How many different principals must approve the same call. One denial denies it.
        from_: Names of those who may decide, or a mapping of roles to names; empty for anybody.
        separation: Whether whoever asked for the run is barred from approving (denying is always open to them, if
            they may decide at all).
        expires: Seconds after which the request lapses; None for as long as the tool's ``approval_expires`` says.
        on_expiry: ``deny``, or others to ask then.

    Raises:
        DefinitionError: One of them cannot be meant, or there are fewer names than the quorum.
    """

    quorum: int = 1
    from_: Sequence[str] | Mapping[str, Sequence[str]] = field(default=(), converter=_names)
    separation: bool = False
    expires: float | None = None
    on_expiry: Literal["deny"] | People = "deny"

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        quorum: object = self.quorum
        if not isinstance(quorum, int) or isinstance(quorum, bool) or quorum < 1:
            raise _refusal(self, "quorum", f"{quorum!r} is not a whole number of at least 1")
        given: object = self.from_
        for names in given.values() if isinstance(given, dict) else (given,):
            if not isinstance(names, tuple) or not all(_is_text(name) for name in names):
                raise _refusal(self, "from_", "give a sequence of names, or a mapping of roles to such")
        if given and len(self.eligible) < self.quorum:
            count = len(self.eligible)
            raise _refusal(self, "from_", f"{count} different names can never be a quorum of {self.quorum}")
        separation: object = self.separation
        if not isinstance(separation, bool):
            raise _refusal(self, "separation", "give true or false")
        if self.expires is not None and not _is_seconds(self.expires):
            raise _refusal(self, "expires", f"{self.expires!r} is not a number of seconds above 0 and up to {_LONGEST}")
        if self.on_expiry != "deny" and not isinstance(self.on_expiry, People):
            raise _refusal(self, "on_expiry", "give 'deny', or a People to ask next")

    @property
    def eligible(self) -> tuple[str, ...]:
        """Names of those who may decide, each once."""
        groups = self.from_.values() if isinstance(self.from_, Mapping) else (self.from_,)
        return tuple(dict.fromkeys(name for names in groups for name in names))

    def chain(self) -> tuple[People, ...]:
        """Who is asked, one after the other."""
        return (self, *(self.on_expiry.chain() if isinstance(self.on_expiry, People) else ()))

    @property
    def asking(self) -> Asking:
        """How people are asked, as it is journaled."""
        return Asking(self.quorum, self.separation, None if self.expires is None else int(self.expires * SECOND))

    def contract(self) -> dict[str, Value]:
        """It as a plain value, for the agent's definition document."""
        names: Value = (
            {role: list(people) for role, people in self.from_.items()}
            if isinstance(self.from_, Mapping)
            else list(self.from_)
        )
        return {
            **super().contract(),
            "quorum": self.quorum,
            "from": names,
            "separation": self.separation,
            "expires": None if self.expires is None else float(self.expires),
            "on_expiry": self.on_expiry.contract() if isinstance(self.on_expiry, People) else self.on_expiry,
        }


# ---- what a chain says


@frozen(slots=False, repr=False, eq=False)
class Ruling(Plain):
    """What policies say of a call.

    Attributes:
        gate: ``free`` may run, ``person`` needs people's leave, ``refused`` never runs.
        grounds: Which policy says so, and how people are asked.
        people: Names of those who may decide, for each way in which people are asked.
        reason: Why; None where there is nothing to say.
    """

    gate: Literal["free", "person", "refused"]
    grounds: Grounds = NO_GROUNDS
    people: tuple[tuple[str, ...], ...] = ()
    reason: str | None = None


FREE: Final = Ruling("free")
"""Nobody need be asked."""


def rule_on(chain: Sequence[tuple[str, Policy]], call: ProposedCall, reason: str = "") -> Ruling:
    """What the first policy says that has something to say; else what the tool says.

    Args:
        chain: Policies by what they are called in the record, such as ``agent.approvals[0]``.
        call: The call.
        reason: Why the tool requires approval, where it does.
    """
    failure = ""
    for place, policy in chain:
        if failure:
            # What could not be judged is for people: those of the next policy that asks any.
            if isinstance(policy, People) and policy.names(call):
                return _asked(place, policy, failure)
            continue
        try:
            speaks = policy.speaks_for(call)
        except Exception as error:  # noqa: BLE001 -- a predicate is the user's code
            failure = f"the predicate of {_label(place, policy)} raised {type(error).__name__}"
            if isinstance(policy, People):
                return _asked(place, policy, failure)
            continue
        if speaks:
            return _said(place, policy)
    if failure:
        return Ruling("person", reason=failure)
    return Ruling("person", reason=reason or None) if call.requires_approval else FREE


def _said(place: str, policy: Policy) -> Ruling:
    match policy:
        case AutoApprove():
            return Ruling("free", Grounds(_label(place, policy)), reason=policy.reason or None)
        case AutoDeny():
            return Ruling("refused", Grounds(_label(place, policy)), reason=policy.reason or None)
        case People():
            return _asked(place, policy, policy.reason)
        case _:
            raise TypeError(f"{type(policy).__name__} is no policy that can be asked")


def _asked(place: str, policy: People, reason: str) -> Ruling:
    chain = policy.chain()
    asks = tuple(people.asking for people in chain)
    people = tuple(each.eligible for each in chain)
    return Ruling("person", Grounds(_label(place, policy), asks=asks), people, reason or None)


def _label(place: str, policy: Policy) -> str:
    return f"{place} {type(policy).__name__}"


def policies(given: Iterable[Policy]) -> Sequence[Policy]:
    """A chain as it is kept; what is none is left for `check_policies` to refuse."""
    return tuple(given) if isinstance(given, Iterable) else given


def check_policies(where: str, given: object) -> None:
    """Refuse what is no chain of policies.

    Raises:
        DefinitionError: It is not a sequence of `AutoApprove`, `AutoDeny` and `People`.
    """
    if not isinstance(given, tuple):
        raise DefinitionError(f"{where}: give a sequence of policies, not {type(given).__name__}")
    for policy in given:
        if not isinstance(policy, AutoApprove | AutoDeny | People):
            raise DefinitionError(f"{where}: {policy!r} is neither AutoApprove, AutoDeny nor People")


# ---- standing rules


def _until(until: datetime | int | None) -> int | None:
    return None if until is None else nanoseconds(until, "Scope.until")


@frozen(slots=False, kw_only=True, repr=False, eq=False)
class Scope(Plain):
    """How far an approval reaches beyond the call that it is given for.

    Nothing is wider than it is said: without anything given it is for exactly this call's arguments, by this agent, in
    any run, for ever.

    Attributes:
        arguments: Arguments that must be these, others may be anything; None for exactly this call's, ``{}`` for any.
        agent: The agent that may call; None for this call's, ``*`` for any.
        run: Whether it is for this call's run alone: its root, with all below that.
        session: Whether it is for the runs of this call's session alone, with all below them.
        until: When it ends: a time with its zone, or ns UTC; None for never.
        uses: How many further calls it lets run; None for any number.

    Raises:
        DefinitionError: One of them cannot be meant.
        InvalidValue: ``until`` is no moment that can be written down, or has no time zone.
    """

    arguments: Mapping[str, Value] | None = None
    agent: str | None = None
    run: bool = False
    session: bool = False
    until: int | None = field(default=None, converter=_until)
    uses: int | None = None

    def __attrs_post_init__(self) -> None:
        arguments: object = self.arguments
        if arguments is not None and not isinstance(arguments, Mapping):
            raise _refusal(self, "arguments", "give a mapping of arguments by name")
        check_value(dict(self.arguments or {}), "Scope.arguments")
        if self.agent is not None and (not isinstance(self.agent, str) or not self.agent):
            raise _refusal(self, "agent", "give an agent's name, or '*' for any")
        uses: object = self.uses
        if uses is not None and (not isinstance(uses, int) or isinstance(uses, bool) or uses < 1):
            raise _refusal(self, "uses", f"{uses!r} is not a whole number of at least 1")
