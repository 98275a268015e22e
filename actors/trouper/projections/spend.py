"""What was spent, by agent, model and day: a projection of the facts of requests, replies and calls.

It counts what each run spent itself, so that runs of sub-agents count for their own agents, and nothing counts twice.
It is the ledger's arithmetic (see `trouper.core.evolve_budget`), summed up in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, cast

import attrs
from attrs import frozen

from trouper.core import events as ev
from trouper_journal import Erased, Plain, Record
from trouper_journal.projections import Cell, Entry, Projected, Tables

By: TypeAlias = Literal["agent", "model", "day"]

UNKNOWN: Final = "?"
"""In the place of a model whose definition was erased."""

_SECOND: Final = 1_000_000_000


@frozen(slots=False, repr=False, eq=False)
class Spending(Plain):
    """What was spent by an agent, by a model, on a day, or in all.

    Attributes:
        agent: The agent; empty where it is not told apart.
        model: The model that was asked, by the name that the agent knows it by; empty where it is not told apart.
        day: The day, UTC, as ``2026-11-30``; empty where it is not told apart.
        runs: How many runs were taken up.
        model_calls: Replies of models, those that hooks and summaries asked for among them.
        tool_calls: Calls of tools, and of sub-agents, that were started; another attempt is the same call.
        input_tokens: Tokens of requests, as far as providers told.
        output_tokens: Tokens of replies, as far as providers told.
        cached_tokens: Those of ``input_tokens`` that the provider had cached.
        assumed_tokens: Tokens reckoned with where nobody told, as far as limits asked for an estimate.
        unknown: Replies and lost requests that told no tokens.
        lost: Requests whose replies nobody will ever know: they may have been billed.
        cost: Nano-units, estimates for lost requests included.
        unpriced: Replies without a price: what they cost is unknown, not zero.
    """

    agent: str = ""
    model: str = ""
    day: str = ""
    runs: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    assumed_tokens: int = 0
    unknown: int = 0
    lost: int = 0
    cost: int = 0
    unpriced: int = 0


SUMS: Final = tuple(field.name for field in attrs.fields(Spending) if field.type in {int, "int"})
"""The columns that are added up."""


_PLACES: Final = ", ?" * len(SUMS)
_MORE: Final = ", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)
_ADD: Final = (
    f"INSERT INTO projection_spend VALUES (?, ?, ?{_PLACES}) "  # noqa: S608 -- made of the constants above
    f"ON CONFLICT (day, agent, model) DO UPDATE SET {_MORE}"
)
_SUM_COLUMNS: Final = ", ".join(f"{name} INTEGER" for name in SUMS)
_SUMS_TABLE: Final = (
    "CREATE TABLE projection_spend "
    f"(day TEXT, agent TEXT, model TEXT, {_SUM_COLUMNS}, PRIMARY KEY (day, agent, model)) WITHOUT ROWID"
)
_RUNS_TABLE: Final = """
CREATE TABLE projection_spend_runs (
    run TEXT PRIMARY KEY,
    agent TEXT,
    model TEXT,
    asked TEXT,
    reserved_tokens INTEGER,
    reserved_cost INTEGER,
    summary TEXT
) WITHOUT ROWID
"""
_MODELS_TABLE: Final = "CREATE TABLE projection_spend_models (definition TEXT PRIMARY KEY, model TEXT) WITHOUT ROWID"


@frozen
class _Run:
    """What of a run's past its next event may need."""

    agent: str
    model: str = UNKNOWN
    asked: str = ""
    reserved_tokens: int = 0
    reserved_cost: int = 0
    summary: str = UNKNOWN


_MOST: Final = 2**53

_Change: TypeAlias = Mapping[str, int]


class SpendProjection:
    """Keeps sums by day, agent and model."""

    name = "spend"
    version = 1
    schema = (_SUMS_TABLE, _RUNS_TABLE, _MODELS_TABLE)
    types = frozenset(
        {
            "definition.recorded", "run.submitted", "run.started", "definition.adopted", "model.requested",
            "model.responded", "model.lost", "hook.applied", "summary.requested", "summary.failed", "context.compacted",
            "action.started",
        }
    )  # fmt: skip
    every = False

    def apply(self, tables: Tables, entries: Sequence[Entry]) -> None:
        """Add what the records say."""
        page = _Page(tables)
        for entry in entries:
            page.take(entry.record, entry.event)
        page.write()


class _Page:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._runs: dict[str, _Run] = {}
        self._sums: dict[tuple[str, str, str], dict[str, int]] = {}
        self._changed: set[str] = set()

    def take(self, record: Record, event: object) -> None:
        if isinstance(event, ev.DefinitionRecorded):
            name = record.stream.partition("/")[2]
            model = _text(_model(event))
            self._tables.execute("INSERT OR REPLACE INTO projection_spend_models VALUES (?, ?)", (name, model))
            return
        run = record.stream.partition("/")[2]
        before = self._run(run)
        after, model, spent = _spent(before, event, self._model_of)
        if after != before:
            self._runs[run] = after
            self._changed.add(run)
        if spent:
            sums = self._sums.setdefault((_day(record.recorded_at), _text(after.agent), _text(model)), {})
            for column, number in spent.items():
                sums[column] = sums.get(column, 0) + _bounded(number)

    def write(self) -> None:
        for run in self._changed:
            now = self._runs[run]
            self._tables.execute(
                "INSERT OR REPLACE INTO projection_spend_runs VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    run,
                    _text(now.agent),
                    _text(now.model),
                    _text(now.asked),
                    _bounded(now.reserved_tokens),
                    _bounded(now.reserved_cost),
                    _text(now.summary),
                ),
            )
        for key, sums in self._sums.items():
            self._tables.execute(_ADD, (*key, *(sums.get(name, 0) for name in SUMS)))

    def _run(self, run: str) -> _Run:
        known = self._runs.get(run)
        if known is None:
            rows = self._tables.execute(
                "SELECT agent, model, asked, reserved_tokens, reserved_cost, summary FROM projection_spend_runs "
                "WHERE run = ?",
                (run,),
            )
            known = _Run(*rows[0]) if rows else _Run(UNKNOWN)  # type: ignore[arg-type]
            self._runs[run] = known
        return known

    def _model_of(self, definition: str) -> str:
        rows = self._tables.execute(
            "SELECT model FROM projection_spend_models WHERE definition = ?", (_text(definition),)
        )
        return str(rows[0][0]) if rows else UNKNOWN


def _spent(run: _Run, event: object, model_of: Callable[[str], str]) -> tuple[_Run, str, _Change]:
    """The run after an event, and what the event added to which model's sums."""
    asked = run.asked or run.model
    match event:
        case ev.RunSubmitted():
            return attrs.evolve(run, agent=event.agent), "", {}
        case ev.RunStarted():
            model = model_of(event.definition)
            return attrs.evolve(run, model=model), model, {"runs": 1}
        case ev.DefinitionAdopted():
            return attrs.evolve(run, model=model_of(event.definition)), "", {}
        case ev.ModelRequested():
            return _requested(run, event), "", {}
        case ev.ModelResponded():
            return _settled(run), asked, _replied(event)
        case ev.ModelLost():
            held = {"assumed_tokens": run.reserved_tokens, "cost": run.reserved_cost}
            return _settled(run), asked, {**held, "unknown": 1, "lost": 1}
        case ev.HookApplied():
            return run, asked, _hooked(event)
        case ev.SummaryRequested():
            return attrs.evolve(run, summary=event.model or UNKNOWN), "", {}
        case ev.SummaryFailed():
            lost = event.reason != "error"
            return run, run.summary, {"model_calls": 1, "unknown": 1, "lost": 1, "unpriced": 1} if lost else {}
        case ev.ContextCompacted():
            return run, run.summary, _summarised(event)
        case ev.ActionStarted():
            return run, asked, {"tool_calls": 1} if event.attempt == 1 else {}
        case _:
            return run, "", {}


def _requested(run: _Run, event: ev.ModelRequested) -> _Run:
    reserve = event.reserve
    tokens, cost = (0, 0) if reserve is None else (reserve.tokens, reserve.cost)
    return attrs.evolve(run, asked=event.model, reserved_tokens=tokens, reserved_cost=cost)


def _settled(run: _Run) -> _Run:
    return attrs.evolve(run, reserved_tokens=0, reserved_cost=0) if run.reserved_tokens or run.reserved_cost else run


def _replied(event: ev.ModelResponded) -> _Change:
    told = event.input_tokens is not None or event.output_tokens is not None
    return {
        "model_calls": 1,
        "input_tokens": event.input_tokens or 0,
        "output_tokens": event.output_tokens or 0,
        "cached_tokens": event.cached_tokens or 0,
        "assumed_tokens": event.assumed_tokens,
        "unknown": 0 if told else 1,
        "cost": event.cost or 0,
        "unpriced": 1 if event.cost is None else 0,
    }


def _hooked(event: ev.HookApplied) -> _Change:
    # A reply that a hook gave in the model's place is recorded as a reply, too, and was no model call.
    answered = event.replied and not event.failed
    return {
        "model_calls": event.model_calls - answered,
        "input_tokens": event.input_tokens,
        "output_tokens": event.output_tokens,
        "unknown": event.unknown,
        "cost": event.cost,
        "unpriced": event.unpriced,
    }


def _summarised(event: ev.ContextCompacted) -> _Change:
    if event.attempt == 0:
        return {}
    told = event.input_tokens is not None or event.output_tokens is not None
    return {
        "model_calls": 1,
        "input_tokens": event.input_tokens or 0,
        "output_tokens": event.output_tokens or 0,
        "unknown": 0 if told else 1,
        "cost": event.cost or 0,
        "unpriced": 1 if event.cost is None else 0,
    }


def _model(event: ev.DefinitionRecorded) -> str:
    """The name of the model in a definition document."""
    document = event.document
    prose = None if isinstance(document, Erased) else document.get("prose")
    identity = prose.get("model") if isinstance(prose, dict) else None
    name = identity.get("model") if isinstance(identity, dict) else None
    return name if isinstance(name, str) and name else UNKNOWN


def _text(text: str) -> str:
    """A text that SQLite can store; a journal can store others, too."""
    return text.encode("utf-8", "backslashreplace").decode()


def _bounded(number: int) -> int:
    """A number that can be summed up; what is beyond was never spent, but may be what a provider has answered."""
    return max(-_MOST, min(number, _MOST))


def _day(nanoseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(nanoseconds // _SECOND, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


async def spending(
    projected: Projected, by: Sequence[By] = ("agent",), *, since: str = "", until: str = ""
) -> list[Spending]:
    """What was spent, as far as the projection has caught up.

    Args:
        projected: A `SpendProjection`, opened by `open_projection`.
        by: What is told apart, in this order; nothing for one sum of all.
        since: The first day, UTC, as ``2026-11-01``; empty for the first of all.
        until: The last day; empty for the last of all.
    """
    told = [name for name in by if name in ("agent", "model", "day")]
    sums = ", ".join(f"sum({name})" for name in SUMS)
    where = "WHERE day >= ? AND (day <= ? OR ? = '')"
    group = f" GROUP BY {', '.join(told)} ORDER BY {', '.join(told)}" if told else ""
    columns = ", ".join([*told, sums])
    rows = await projected.query(f"SELECT {columns} FROM projection_spend {where}{group}", (since, until, until))  # noqa: S608 -- made of the constants above
    return [_spending(told, row) for row in rows if any(cell is not None for cell in row)]


def _spending(told: Sequence[str], row: Sequence[Cell]) -> Spending:
    names = dict(zip(told, map(str, row), strict=False))
    sums = cast("Sequence[int]", row[len(told) :])
    return Spending(names.get("agent", ""), names.get("model", ""), names.get("day", ""), *sums)
