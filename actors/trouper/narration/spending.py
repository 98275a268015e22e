"""What runs spend, in words: for headers, sentences and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trouper.core import events as ev
from trouper.core.budget import Raise, Spent
from trouper.core.limits import SECOND, Resource
from trouper.narration.line import RUNTIME, Line, deed, reason_text
from trouper.narration.text import clean, count

NANO = 1_000_000_000


def money(nano: int) -> str:
    """Nano-units as units, exactly."""
    whole, rest = divmod(nano, NANO)
    return f"{whole:,}.{rest:09d}".rstrip("0").rstrip(".") if rest else f"{whole:,}"


def spent_text(spent: Spent) -> str:
    """What a run has spent, in one line."""
    parts = [f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out"]
    if spent.assumed_tokens:
        parts.append(f"about {spent.assumed_tokens:,} more by estimate")
    if spent.unknown:
        parts.append(f"unknown for {count(spent.unknown, 'request')}")
    if spent.cost:
        unpriced = f" without {count(spent.unpriced, 'reply').replace('replys', 'replies')}" if spent.unpriced else ""
        parts.append(f"cost {money(spent.cost)}{unpriced}")
    return ", ".join(parts)


_NOUNS: Mapping[Resource, str] = {
    "steps": "step",
    "model_calls": "model call",
    "tool_calls": "tool call",
    "tokens": "token",
    "cost": "nano-unit",
    "seconds": "second",
}


def _amount(resource: Resource, number: int) -> str:
    return f"{number / SECOND:g}" if resource == "seconds" else f"{number:,}"


def more_text(more: Raise) -> str:
    """By how much limits are raised."""
    return ", ".join(_parts(more)) or "another try"


def _parts(more: Raise) -> Iterator[str]:
    numbers: tuple[tuple[int, str], ...] = (
        (more.steps, "more step"),
        (more.model_calls, "more model call"),
        (more.tool_calls, "more tool call"),
        (more.tokens, "more token"),
        (more.cost, "more nano-unit"),
    )
    for number, noun in numbers:
        if number:
            yield count(number, noun)
    for tool, calls in more.by_tool.items():
        yield f"{count(calls, 'more call')} of {clean(tool)}"
    if more.seconds:
        yield f"{more.seconds:g} more seconds"


def _refused(event: ev.BudgetRefused, _: int | None) -> Line:
    whose = f"of run {clean(event.owner)}"
    if event.unpriced:
        return Line(RUNTIME, f"the limit of cost {whose} cannot be kept: the model has no price", "bad")
    noun = f"call of {clean(event.tool)}" if event.tool else _NOUNS[event.resource]
    limit, spent = _amount(event.resource, event.limit), _amount(event.resource, event.spent)
    what = f"call {event.action} is not started: " if event.action else ""
    return Line(RUNTIME, f"{what}the limit {whose} is reached ({noun}s: {spent} of {limit} spent)", "bad")


def _warned(event: ev.BudgetWarned, _: int | None) -> Line:
    limit, spent = _amount(event.resource, event.limit), _amount(event.resource, event.spent)
    whose = f" of the limit of run {clean(event.owner)}" if event.owner else ""
    what = f"{_NOUNS[event.resource]}s: {spent} of {limit} spent"
    return Line(RUNTIME, f"tells the model what is left{whose} ({what})", "dim")


def _raised(event: ev.BudgetRaised, limit: int | None) -> Line:
    why = reason_text(event.reason, limit)
    if event.owner:
        return deed(event.by, f"has raised the limit of run {clean(event.owner)}{why}")
    return deed(event.by, f"allows {more_text(event.more)}{why}")


BUDGET_SENTENCES: Mapping[type, Callable[..., Line]] = {
    ev.BudgetRefused: _refused,
    ev.BudgetWarned: _warned,
    ev.BudgetRaised: _raised,
}
