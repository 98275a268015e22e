"""What a run and its children write into each other's streams, each in one commit with its own."""

from __future__ import annotations

import json

import attrs

from trouper.agent import Agent
from trouper.core import events as ev
from trouper.core import steps as st
from trouper.core import wording
from trouper.core.base import Base, HistoryRef
from trouper.core.child_wording import finished
from trouper.core.conversation import Human
from trouper.core.evolve import evolve
from trouper.core.family import Parent, child_id
from trouper.core.fork import Fork
from trouper.core.state import Action, RunState
from trouper.core.status import status
from trouper.core.tooling import inherited
from trouper.errors import ArgumentsError
from trouper.runtime.domains import domain_of, session_of
from trouper.runtime.launches import Plan
from trouper.sub_agents import SubAgent
from trouper.tools import Returned, changes, shown
from trouper_journal import Write


def begin_child(state: RunState, action: Action, tool: SubAgent, attempt: int) -> Plan:
    """Submit the run that a call begins."""
    run, agent = child_id(state.run, action.action), tool.agent.name
    asked = (action.arguments or {}).get("input")
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
    history = _history(state) if tool.include_history else 0
    submitted = ev.RunSubmitted(
        agent,
        input=(Human(f"{run}/input", text),),
        # One domain, one salt: what is erased with the root is erased with its whole tree.
        salt=state.salt,
        by=state.by,
        parent=Parent(state.run, action.action, tool.returns, session_of(state)),
        path=(*state.path, agent),
        fork=None if state.forked is None else Fork("", 0, state.forked.of.writes),
        grants=inherited(state.tools.grants, tool.grants),
        # The reply that calls is left out: its calls have no answers yet.
        base=Base((HistoryRef(state.run, history, take=len(state.messages) - 1),)) if history else None,
    )
    child = evolve(RunState(run), submitted)
    told = status(child)
    write = Write(f"run/{run}", [submitted], 0, told.label, told.wake_at, domain_of(child))
    events = (ev.ChildStarted(action.action, run, agent, history), ev.ActionStarted(action.action, attempt))
    return Plan(events, writes=(write,))


def _history(state: RunState) -> int:
    """The version of a run's stream up to which its conversation is shown; one for all calls of a reply."""
    shown = (action.child.history for action in state.batch if action.child is not None and action.child.history)
    return next(shown, state.version)


def take_in(agent: Agent | None, state: RunState, step: st.Close) -> Plan:
    """Take in what a child came to: its receipt, and what it writes into the named state."""
    receipt = ev.ActionReceipted(step.action, step.attempt, step.outcome, "child", step.text)
    action = state.action(step.action)
    tool = agent.toolbox.get(action.tool) if agent is not None and action is not None else None
    if tool is not None:
        # The word of the child has it whole.
        told = shown(Returned(step.text), tool.options.max_result)
        receipt = attrs.evolve(receipt, text=told.text, cut=told.cut)
    if agent is None or not isinstance(tool, SubAgent) or tool.output_key is None or step.outcome == "error":
        return Plan((receipt,))
    assert action is not None
    assert action.child is not None
    answer = action.child.text if action.child.value is None else action.child.value
    try:
        ops = changes(agent.state, state.named, {tool.output_key: answer})
    except ArgumentsError as error:
        return Plan(
            (attrs.evolve(receipt, outcome="error", text=wording.state_refused(str(receipt.text), str(error))),)
        )
    return Plan((ev.StateChanged("child", action.child.run, ops), receipt))


def pass_on(state: RunState, step: st.CancelChild | st.PauseChild, now: int) -> Plan:
    """Say to a child what was said to its parent."""
    if isinstance(step, st.CancelChild):
        return cancel_child(state, step, now)
    pause = state.control.pause
    said: object
    if pause is not None:
        said = ev.PauseRequested(pause.by, pause.reason)
    else:
        said = ev.ResumeRequested(ev.Principal(state.agent, "agent", f"run:{state.run}"))
    write = Write(f"run/{step.run}", [said], wake_at=now, domain=domain_of(state))
    return Plan((ev.ChildPauseRequested(step.action, step.run, step.paused),), writes=(write,))


def cancel_child(state: RunState, step: st.CancelChild, now: int) -> Plan:
    """Pass a cancellation on.

    The moment makes the child due whatever it waits for; one that has just ended then says again that it has.
    """
    if state.cancel is not None:
        by, reason = state.cancel.by, state.cancel.reason
    elif state.halt is not None:
        by, reason = ev.Principal(state.agent, "agent", f"run:{state.run}"), state.halt.message
    else:
        by, reason = ev.Principal("deadline", "policy", "runtime"), f"the deadline of run {state.run} has passed"
    event = ev.CancelRequested(by, reason)
    write = Write(f"run/{step.run}", [event], wake_at=now, domain=domain_of(state))
    return Plan((ev.ChildCancelRequested(step.action, step.run),), writes=(write,))


def word_to_parent(state: RunState, now: int) -> Write | None:
    """What is written into the parent's stream in the commit that ends a run; None where there is none to write.

    It is appended whatever else was appended there, and leaves the label to the parent.
    """
    parent = state.family.parent
    if parent is None or not state.ended:
        return None
    event = finished(state, parent)
    return Write(f"run/{parent.run}", [event], wake_at=now, domain=domain_of(state))
