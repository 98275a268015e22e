"""What runs spent, in a table whose rows add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import define, field

from trouper.audit.definitions import Document
from trouper.audit.entries import Cost
from trouper.audit.markup import Child, Markup, el, together
from trouper.audit.report_parts import NOTHING, Row, anchor, number, row, table
from trouper.audit.story import RunStory
from trouper.narration.spending import money
from trouper.narration.text import count

_HEADS: Final = ("Run", "Model", "Requests", "Tokens in", "Tokens out", "of them cached", "Estimated", "Cost", "Price")
_WHAT: Final = {
    "hook": "asked by hooks",
    "summary": "for summaries",
    "lost": "lost: the reply never came, and may have been billed",
    "failed": "failed",
}


@define
class _Sum:
    """What belongs in one row."""

    costs: list[Cost] = field(factory=list)

    def told(self, name: str) -> int | None:
        found = [value for cost in self.costs if (value := getattr(cost, name)) is not None]
        return sum(found) if found else None

    def cells(self) -> Iterator[Markup]:
        yield number(len(self.costs))
        yield number(self.told("input_tokens"))
        yield number(self.told("output_tokens"))
        yield number(self.told("cached_tokens") or None)
        yield number(self.told("assumed_tokens") or None)
        cost = self.told("cost")
        yield number(None if cost is None else money(cost))


def spend_table(runs: Sequence[RunStory], definitions: Mapping[str, Document]) -> Markup:
    """What runs spent, by run and model, and in all."""
    rows: list[Row] = []
    everything = _Sum()
    for run in runs:
        parts: dict[tuple[str, str, bool, str], _Sum] = {}
        for cost in run.costs:
            if cost.what != "failed":
                everything.costs.append(cost)
                parts.setdefault(_kind(run, cost, definitions), _Sum()).costs.append(cost)
        for (what, model, told, price), part in parts.items():
            cells = part.cells()
            link = el("a", _name(run), href=f"#{anchor(run.run)}", title=run.run)
            rows.append(row(link, _model(what, model, told), *cells, price or NOTHING))
    if not rows:
        return el("p", "No model was asked.", class_="soft")
    if len(rows) > 1:
        rows.append(row("In all", "", *everything.cells(), "", class_="total"))
    return together(table(_HEADS, rows, numbers=_HEADS[2:8]), el("p", _notes(runs, everything), class_="soft small"))


def _name(run: RunStory) -> str:
    """A run in short: its agent, and which of that agent's runs it is."""
    if run.submitted is None:
        return run.run
    turn = "" if run.submitted.turn is None else f", turn {run.submitted.turn.number}"
    below = run.run.partition("~")[2]
    return f"{run.submitted.agent}{turn}{f', ~{below}' if below else ''}"


def _kind(run: RunStory, cost: Cost, definitions: Mapping[str, Document]) -> tuple[str, str, bool, str]:
    """What a row is about: what for, which model, whether the provider named it, and by what price."""
    asked = ""
    if cost.what in {"reply", "lost"} and cost.index is not None and not cost.model:
        document = definitions.get(run.definitions[-1]) if run.definitions else None
        identity = {} if document is None else document.model(run.asked.get(cost.index, ""))
        name = identity.get("model")
        asked = name if isinstance(name, str) else ""
    return cost.what, cost.model or asked, bool(cost.model), cost.price or ""


def _model(what: str, model: str, told: bool) -> Markup:
    notes = [_WHAT[what]] if what in _WHAT else []
    if what in {"reply", "lost"} and model and not told:
        notes.append("as asked for; the provider named none")
    note = el("div", "; ".join(notes), class_="soft small") if notes else None
    return together(model or (None if notes else NOTHING), note)


def _notes(runs: Sequence[RunStory], everything: _Sum) -> list[Child]:
    notes: list[Child] = []
    untold = sum(cost.input_tokens is None or cost.output_tokens is None for cost in everything.costs)
    if untold:
        notes.append(f"{count(untold, 'request')} told no tokens: what they took is not among those in and out. ")
    unpriced = sum(cost.cost is None for cost in everything.costs)
    if unpriced and unpriced < len(everything.costs):
        notes.append(f"{count(unpriced, 'request')} without a price: what they cost is unknown, and not in the sum. ")
    elif unpriced:
        notes.append("None of it has a price: what it cost is unknown. ")
    failed = sum(cost.what == "failed" for run in runs for cost in run.costs)
    if failed:
        notes.append(f"{count(failed, 'more request')} failed, and cost nothing. ")
    calls = sum(_started(run) if run.state is None else run.state.own_spent.tool_calls for run in runs)
    known = ", as far as can be read" if any(run.state is None for run in runs) else ""
    notes.append(f"Tool calls started{known}: {calls:,}.")
    return notes


def _started(run: RunStory) -> int:
    return sum(call.starts > 0 for call in run.calls.values())
