"""What models and people are told when something other than a tool's own result must be said.

Each text says what is known, no more and no less: not started, failed, or in doubt.
"""

from __future__ import annotations

import json

from trouper.core.budget import Refusal
from trouper.core.effects import Effect
from trouper.core.limits import SECOND, Resource
from trouper.core.state import Action, RunState

NOT_STARTED = "Not started."
UNDER_WAY = "No result yet: the call was still under way at this point of the conversation."
DEADLINE = "its deadline has passed; extend it to go on"
LAPSED = "Not started: the request for approval expired before anybody decided."
LIMIT = "Not started: the run has reached its step limit."
TRUNCATED = (
    "Not started: your reply was cut off by its length limit, so the arguments may be incomplete. "
    "Issue the call again with shorter arguments, or in smaller parts."
)
REFUSED_CALL = "Not started: the reply that it stands in is a refusal."
REFUSED = "the model refused to answer, or its provider filtered the reply"
REFUSED_AGAIN = "Your last reply was a refusal, or was filtered. You are asked to try again."
OUTPUT_ACCEPTED = "Accepted."
OUTPUT_TWICE = "Not used: another final output of the same reply was accepted."
OUTPUT_HELD_BACK = (
    "Not accepted: another call of the same reply did not succeed. Look at its result, and hand in the final output "
    "again when you know what came of it."
)
OUTPUT_OVERTAKEN = "Not accepted: somebody has said something meanwhile. Read it, then hand in the final output again."
OUTPUT_UNWANTED = "Not used: no such output is asked for any more."
SUMMARISE = (
    "Summarise the conversation that you are shown, for an assistant that will go on with it and will not see it any "
    "more. Keep what was asked and decided, names, numbers and ids, what was done by tools and with which result, and "
    "what is still open. Answer with the summary alone."
)
NOBODY_TO_AUTHORIZE = "the callback that must be asked is not there any more"
FORK_BLOCKED = "Not started: this is a what-if run, in which new effects are blocked."
FORK_SIMULATED = "Simulated: this is a what-if run; nothing was done, and it counts as if it had succeeded."
WRAP_UP = "The step limit is reached and no more tools can be called. Answer now, with what you have."


def wrap_up(refusal: Refusal | None) -> str:
    """What the model is told with a run's last request."""
    if refusal is None:
        return WRAP_UP
    limit = "time limit" if refusal.resource == "seconds" else f"limit of {_MEASURES[refusal.resource]}"
    return f"The {limit} is reached and no more tools can be called. Answer now, with what you have."


def lost(times: int) -> str:
    """Why a run ends whose request is lost again and again."""
    return f"the process was lost {times} times while it waited for this reply"


def cut_off(times: int) -> str:
    """Why a run ends whose replies do not fit."""
    return f"{times} replies in a row were cut off by the length limit while calling tools"


def step_limit(steps: int) -> str:
    """Why a run ends at its limit."""
    return f"the limit of steps is reached after {steps}; raise it to go on"


_MEASURES: dict[Resource, str] = {
    "steps": "steps",
    "model_calls": "model calls",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "cost": "nano-units of cost",
    "seconds": "seconds",
}


def _amount(resource: Resource, amount: int) -> str:
    return f"{amount / SECOND:g}" if resource == "seconds" else str(amount)


def over_budget(refusal: Refusal, run: str) -> str:
    """Why a run ends at a limit other than that of steps."""
    whose = "" if refusal.owner == run else f" of run {refusal.owner}, above this one,"
    if refusal.unpriced:
        return f"there is a limit of cost{whose} but no price for the model: give it one in RuntimeOptions.prices"
    limit, spent = _amount(refusal.resource, refusal.limit), _amount(refusal.resource, refusal.spent)
    return f"the limit{whose} of {limit} {_MEASURES[refusal.resource]} is reached with {spent} spent; raise it to go on"


def not_afforded(refusal: Refusal) -> str:
    """A call that is not started because a limit of the whole run, or of one above it, is reached."""
    limit = _amount(refusal.resource, refusal.limit)
    return f"Not started: the limit of {limit} {_MEASURES[refusal.resource]} is reached."


def tool_limit(tool: str, limit: int) -> str:
    """A call that is not started because its tool may not be called more often."""
    times = "1 time" if limit == 1 else f"{limit} times"
    return f"Not started: {tool} may be called {times} in all. Go on without it."


def running_out(resource: Resource, limit: int, spent: int, *, shared: bool = False) -> str:
    """What the model is told when a limit comes near: its run's own, or one that it shares with others."""
    left = max(0, limit - spent)
    measure = _MEASURES[resource]
    by = " by all agents that share them" if shared else ""
    return (
        f"{_amount(resource, spent)} of {_amount(resource, limit)} {measure} are spent{by}; "
        f"{_amount(resource, left)} are left. Come to an end within that."
    )


def not_accepted(times: int, told: str) -> str:
    """Why a run ends whose answers are not accepted."""
    many = "1 answer was" if times == 1 else f"{times} answers were"
    why = "; ".join(line[2:] for line in told.splitlines() if line.startswith("- "))
    return f"{many} not accepted: {why or told}"


def missing(state: RunState) -> str:
    """What the model is told of evidence that is missing; empty where none is."""
    done = state.answer.receipts
    lines = []
    for each in state.terms.requires:
        found = sum(done.get(tool, 0) for tool in each.tools)
        if found < each.count:
            tools = " or ".join(each.tools)
            several = f"{each.count} calls of {tools} that succeed (so far: {found})"
            lines.append(f"- a call of {tools} that succeeds" if each.count == 1 else f"- {several}")
    return (
        "\n".join(["You are not done yet. Still missing:", *lines, "Do that first, then answer again."])
        if lines
        else ""
    )


def refused(reason: str | None) -> str:
    """A call that a policy refused."""
    return f"Not started: denied by policy{f': {reason}' if reason else ''}."


def denied(action: Action) -> str:
    """A call that a person refused."""
    decision = action.decision
    who = decision.by.id if decision and decision.by else "the approver"
    why = f": {decision.reason}" if decision and decision.reason else ""
    return f"Not started: denied by {who}{why}."


def forbidden(action: Action) -> str:
    """A call that may not run."""
    denial = action.denial
    if denial is not None and denial.missing:
        several = "permissions" if len(denial.missing) > 1 else "permission"
        return f"Not started: this run lacks the {several} {', '.join(denial.missing)}, which {action.tool} takes."
    return f"Not started: denied{f': {denial.reason}' if denial is not None and denial.reason else ''}."


def cancelled(state: RunState) -> str:
    """A call that was not started because the run was cancelled, or its time was up."""
    return f"Not started: {_cause(state)}."


def _cause(state: RunState) -> str:
    if state.cancel is None:
        return "the run's deadline passed" if state.control.overdue else "the run's time is up"
    by = f" by {state.cancel.by.id}" if state.cancel.by else ""
    return f"the run was cancelled{by}" + (f": {state.cancel.reason}" if state.cancel.reason else "")


_CAUSES = {
    "lost": "the process was lost while it ran",
    "shutdown": "the runtime stopped while it ran",
    "timeout": "it timed out",
    "cancelled": "the run was cancelled while it ran",
    "deadline": "the run's deadline passed while it ran",
    "exception": "it raised an unexpected error",
    "transient": "it failed",
    "retryable": "it raised an error",
    "tool_error": "it failed",
    "not_begun": "it was not begun",
    "restored": "the journal was put back to an older copy, from before it had ended",
}


def interrupted(action: Action) -> str:
    """A call that is over without success, in a class where that leaves no doubt."""
    if action.effect is Effect.READ_ONLY and action.cause in {"timeout", "cancelled"}:
        # The attempt's own words speak of an effect, whatever the tool promises.
        return f"Failed: {_CAUSES[action.cause]}. It only reads: there is no effect to be in doubt about."
    said = f": {action.text}" if action.text else ""
    return f"Failed: {_CAUSES.get(action.cause or '', 'it was interrupted')}{said}."


def not_again(action: Action, state: RunState) -> str:
    """A call that is known not to have taken effect, and is not tried again because the run is ending."""
    said = f" ({action.text})" if action.text else ""
    why = _CAUSES.get(action.cause or "", "it was interrupted")
    return f"Did not take effect: {why}{said}, and {_cause(state)}."


def left_open(action: Action) -> str:
    """A call that was open when its run failed."""
    if action.attempt == 0:
        return NOT_STARTED
    return "Cut short: the run failed meanwhile."


def cut_short(action: Action, state: RunState) -> str:
    """A call that waited for a moment, which its run does not live to see."""
    done = "The wait" if action.effect is Effect.READ_ONLY else "Took effect; the wait after that"
    return f"{done} was cut short: {_cause(state)}."


def doubt(action: Action) -> str:
    """A call of which nobody knows whether it took place."""
    said = f" ({action.text})" if action.text else ""
    why = _CAUSES.get(action.cause or "", "it was interrupted")
    if action.cause in {"transient", "tool_error"}:
        why = f"an earlier attempt was cut off, and the last one says that {why}"
    elif action.cause == "not_begun":
        why = "an earlier attempt was cut off, and the next one was not begun"
    late = "; it may still take effect" if action.cause == "timeout" else ""
    return f"In doubt: {why}{said}, and it is unknown whether it took effect{late}."


def resolved(action: Action) -> str:
    """A doubt that a person settled."""
    who = action.settled_by.id if action.settled_by else "a person"
    why = f": {action.evidence}" if action.evidence else ""
    match action.verdict:
        case "applied":
            return f"Took effect, as {who} found{why}."
        case "abandon":
            return f"Given up by {who}; it is unknown whether it took effect{why}."
        case _:
            return f"Did not take effect, as {who} found{why}."


def state_refused(text: str, why: str) -> str:
    """The result of a call that did its work, and wrote to the run's state what does not fit there."""
    return f"The call returned, but what it wrote to the run's state was refused, and nothing of it kept: {why}\n{text}"


def told(action: Action, text: str) -> str:
    """A call's result, and what the model must know of how it came about."""
    if action.original is not None:
        return edited(action, text)
    if action.asked is not None:
        ran = json.dumps(action.arguments, ensure_ascii=False, separators=(",", ":"), default=str)
        return f"[the arguments were changed by a rule; what ran: {ran}]\n{text}"
    return text


def edited(action: Action, text: str) -> str:
    """The result of a call that ran with a person's arguments instead of the model's."""
    editor = action.consent.editor
    who = editor.id if editor else "an approver"
    ran = json.dumps(action.arguments, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"[{who} changed the arguments; what ran: {ran}]\n{text}"


def summary(text: str) -> str:
    """What a model is shown in the place of messages that are not handed on any more."""
    return f"[Summary of the earlier conversation, which is not shown any more]\n{text}"


def no_summary(reason: str, message: str) -> str:
    """Why there is no summary."""
    if reason == "error":
        return message
    why = {"restart": "the process was lost", "shutdown": "the runtime stopped", "cancelled": "the run was cancelled"}
    return f"{why.get(reason, reason)} while it was waited for"
