"""Holds a run's calls against the definition that the run has pinned: what each tool promised, and who was to agree.

Pure; works from the definition document in the journal, without the agent's code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final, TypeAlias

from attrs import evolve

from trouper.approvals import SECOND
from trouper.core.events import ActionPlanned, ActionReplanned
from trouper.core.rules import Book, Planned, fitting
from trouper.core.state import RunState
from trouper.core.tooling import missing
from trouper.errors import ArgumentsError
from trouper.tools import parse_arguments
from trouper.tools._strict import LeftOut
from trouper_journal import Value, canonical, plain_digest

Plan: TypeAlias = ActionPlanned | ActionReplanned
Contract: TypeAlias = Mapping[str, Value]

_RUNS: Final = frozenset({"free", "person", "recorded", "simulated"})
_OWN_POLICY: Final = re.compile(r"agent\.approvals\[([0-9]+)\] (\w+)")
_SHIPPED: Final = frozenset({"AutoApprove", "AutoDeny", "People"})


def breach(contract: Contract, book: Book, state: RunState, plan: Plan) -> str | None:
    """What a plan of a call contradicts in the definition that its run has pinned; None where it contradicts nothing.

    Calls that are refused, or answered without their tool, may be of any tool, and are not looked at.

    Args:
        contract: The contract's part of the definition document.
        book: The standing rules as they stood before the plan.
        state: The run before the plan.
        plan: The plan.
    """
    if plan.gate not in _RUNS:
        return None
    tool = plan.tool if isinstance(plan, ActionPlanned) else _planned_tool(state, plan.action)
    promised = _mapping(_mapping(contract.get("tools")).get(tool))
    if not promised:
        return f"{tool!r} is no tool of the definition"
    looks = (_terms(promised, plan), _as_asked(promised, state, plan), _leave(contract, promised, tool, state, plan))
    return next(chain(*looks, _by_rules(book, state, plan)), None)


def _terms(promised: Contract, plan: Plan) -> Iterator[str]:
    """Where the plan is not what the tool promises."""
    recorded: dict[str, Value] = {
        "effect": plan.effect.value,
        "attempts": plan.attempts,
        "return_direct": plan.direct,
        "permissions": [*sorted(plan.permissions)],
    }
    unsaid: dict[str, Value] = {"return_direct": False, "permissions": []}
    for name, value in recorded.items():
        wanted = promised.get(name, unsaid.get(name))
        if value != wanted:
            yield f"its {name} is {value!r}, and by the definition {wanted!r}"
    if promised.get("authorize") is True and not plan.authorize:
        yield "nobody is to authorize it, and by the definition somebody is"
    if plan.identity != plain_digest({**promised}):
        yield "its identity is not the digest of what the tool promises"


def _as_asked(promised: Contract, state: RunState, plan: Plan) -> Iterator[str]:
    """Where the plan is not of the call that the model asked for."""
    if not isinstance(plan, ActionPlanned) or state.erased:
        return
    asked = next((call for name, call in state.unplanned if name == plan.action), None)
    if asked is None:
        return
    if asked.name != plan.tool:
        yield f"it is of the tool {plan.tool!r}, and the model asked for {asked.name!r}"
        return
    edit = state.hooks.calls.get(plan.action)
    edited = None if edit is None else edit.arguments
    try:
        given = parse_arguments(asked.arguments)
    except ArgumentsError:
        given = {}
    if edited is None and promised.get("strict") is True:
        given = LeftOut({**_mapping(promised.get("parameters"))}).arguments(given)
    wanted = given if edited is None else dict(edited)
    if isinstance(plan.arguments, dict) and canonical(plan.arguments) != canonical(wanted):
        by = "the model" if edited is None else "a hook"
        yield f"its arguments are not those that {by} gave"


def _leave(contract: Contract, promised: Contract, tool: str, state: RunState, plan: Plan) -> Iterator[str]:
    """Where others were to agree than those who were asked."""
    if plan.gate not in {"free", "person"} or missing(plan.permissions, state.tools.grants):
        return
    grounds = plan.grounds
    given = contract.get("approvals")
    policies = [_mapping(policy) for policy in given] if isinstance(given, list) else []
    if plan.gate == "free" and not grounds.policy:
        if promised.get("gate") == "always" and not grounds.rules:
            yield "it needed nobody's approval, and by the definition every call of its tool needs one"
        sure = next((place for place, policy in enumerate(policies) if _always_speaks(policy, promised, tool)), None)
        if sure is not None and policies[sure].get("policy") != "AutoApprove":
            yield f"it needed nobody's approval, and agent.approvals[{sure}] of the definition is for every such call"
    named = _OWN_POLICY.fullmatch(grounds.policy)
    if named is not None:
        place = int(named[1])
        yield from _by_policy(policies[place] if place < len(policies) else {}, named[2], tool, plan)


def _always_speaks(policy: Contract, promised: Contract, tool: str) -> bool:
    tools = policy.get("tools")
    named = tool in tools if isinstance(tools, list) else promised.get("gate") == "always"
    return named and policy.get("when") is None


def _by_policy(policy: Contract, kind: str, tool: str, plan: Plan) -> Iterator[str]:
    grounds = plan.grounds
    if policy.get("policy") != kind:
        yield f"it rests on {grounds.policy}, and the definition has no such policy"
        return
    tools = policy.get("tools")
    if isinstance(tools, list) and tool not in tools:
        yield f"it rests on {grounds.policy}, which by the definition does not speak for {tool!r}"
    wanted = "AutoApprove" if plan.gate == "free" and not grounds.rules else "People"
    if kind in _SHIPPED and kind != wanted:
        yield f"{grounds.policy} does not lead to the gate {plan.gate!r}"
    quorum = policy.get("quorum")
    if grounds.rules and isinstance(quorum, int) and len(set(grounds.rules)) < quorum:
        yield f"{len(set(grounds.rules))} standing rules let it run, and {grounds.policy} wants {quorum} to agree"
    if plan.gate == "person":
        yield from _asks(policy, plan)


def _asks(policy: Contract, plan: Plan) -> Iterator[str]:
    """Where people are asked in another way than the policy has it."""
    source = f"{plan.grounds.policy} of the definition"
    for number, asks in enumerate(plan.grounds.asks):
        after = policy.get("expires")
        promised: dict[str, Value] = {
            "quorum": policy.get("quorum"),
            "separation": policy.get("separation"),
            "expires": int(after * SECOND) if isinstance(after, float) else None,
        }
        recorded: dict[str, Value] = {
            "quorum": asks.quorum,
            "separation": asks.separation,
            "expires": asks.expires,
        }
        for name, value in recorded.items():
            if value != promised[name]:
                yield f"its {name} is {value!r}, and by {source} {promised[name]!r}"
        people = plan.people
        if isinstance(people, tuple) and number < len(people) and set(people[number]) != set(_names(policy)):
            yield f"those who may decide are not those whom {source} names"
        policy = _mapping(policy.get("on_expiry"))
    if policy:
        yield f"those whom {source} names for after the expiry are not asked"


def _names(policy: Contract) -> Iterator[str]:
    given = policy.get("from")
    for names in given.values() if isinstance(given, dict) else (given,):
        yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _by_rules(book: Book, state: RunState, plan: Plan) -> Iterator[str]:
    """Which of the standing rules that let it run were not there, or did not speak for it."""
    for name in plan.grounds.rules:
        rule = book.rules.get(name)
        if rule is None or rule.revoked:
            yield f"the standing rule {name} that let it run had {'not been made' if rule is None else 'been revoked'}"
            return
        if rule.by is None or rule.arguments is None or not isinstance(plan, ActionPlanned):
            continue  # erased, or of a call whose arguments stand in an earlier plan
        if isinstance(plan.arguments, dict):
            # Which session the run belongs to, and the hour by the driver's clock, are not known here.
            action = f"{state.run}/{plan.action}"
            call = Planned(action, rule.session, state.agent, plan.tool, plan.identity, plan.arguments)
            moment = 0 if rule.until is None else min(0, rule.until - 1)
            # The use by this very call is in the same commit, and may stand before its plan.
            before = evolve(rule, used=rule.used - {action})
            if not fitting(Book(rules={name: before}), call, now=moment):
                yield f"the standing rule {name} that let it run did not speak for it, or had been used up"


def _planned_tool(state: RunState, action: str) -> str:
    return next((each.tool for each in state.batch if each.action == action), "")


def _mapping(value: Value | Contract) -> Contract:
    return value if isinstance(value, Mapping) else {}
