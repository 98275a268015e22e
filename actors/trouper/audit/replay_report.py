"""What a replay finds, as values: one for each stream, and a difference with both of its sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import cattrs
from attrs import field, frozen

from trouper.core.replay import Difference
from trouper.core.state import Action, RunState
from trouper.core.steps import Step
from trouper.narration.plain import fields, plain
from trouper_journal import Plain, Record

ProblemKind: TypeAlias = Literal["step", "history", "unknown", "corrupt", "fold", "definition", "promise", "kin"]

MEANINGS: Final[Mapping[ProblemKind, str]] = {
    "step": "the rules would not have taken a recorded step",
    "history": "what the run started from is not what it was",
    "unknown": "an event is of a type or schema that this release does not know; nothing is folded past it",
    "corrupt": "stored bytes do not form an event, or a version is missing",
    "fold": "the events cannot be folded: they cannot have been written in this order",
    "definition": "a definition document does not have the digest that its stream is named by",
    "promise": "a call was planned otherwise than the run's definition has it: nobody was to approve it, for example",
    "kin": "a run and the run that called it contradict each other",
}
"""What each kind of problem means."""


@frozen(slots=False, repr=False, eq=False)
class ReplayProblem(Plain):
    """The first thing in a stream that a replay stumbled over.

    Attributes:
        kind: See `MEANINGS`.
        stream: The stream.
        version: Version of the record concerned; None where it is not about one.
        position: Its position in the journal; None where it is not about one.
        message: What it is, in one sentence.
        recorded: The recorded event as plain values: ``type`` and ``fields``; None where there is none to show.
        named: The steps that the rules name in its place, as plain values: ``step`` and ``fields``; None where it is
            not about a step.
        state: What of the run's state before that event bears on it, as plain values.
    """

    kind: ProblemKind
    stream: str
    version: int | None
    position: int | None
    message: str
    recorded: Mapping[str, object] | None = None
    named: tuple[Mapping[str, object], ...] | None = None
    state: Mapping[str, object] | None = None


@frozen(slots=False, repr=False, eq=False)
class RunFacts(Plain):
    """What a run is, for checking it against today's agents.

    Attributes:
        agent: Its agent's name.
        ended: Whether it is over.
        started: Whether it was taken up, and so has a definition.
        definition: Digest of the definition that it runs under.
        contract: Digest of the contract's part of it.
        prose: Digest of the rest.
    """

    agent: str
    ended: bool
    started: bool
    definition: str
    contract: str
    prose: str


@frozen(slots=False, repr=False, eq=False)
class StreamReplay(Plain):
    """A stream, replayed.

    Attributes:
        stream: Its name.
        records: How many of its records were folded.
        problem: The first problem; None where there is none.
        not_compared: Why not everything was compared: ``erased`` (content that steps rested on is gone, or sealed),
            ``rules N`` (written under rules that this release does not have), or ``archived`` (the stream, or the
            history that the run started from, is in an archive that is not at hand); None where all was.
        run: Of a run's stream, what it is; else None.
    """

    stream: str
    records: int
    problem: ReplayProblem | None = None
    not_compared: str | None = None
    run: RunFacts | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.problem is None

    @property
    def left_out(self) -> bool:
        """Whether nothing of it was replayed, because it is in an archive that is not at hand."""
        return self.not_compared == "archived" and not self.records


def facts_of(state: RunState) -> RunFacts:
    """What a run is."""
    return RunFacts(state.agent, state.ended, state.started, state.definition, state.contract, state.prose)


def step_problem(record: Record, found: Difference) -> ReplayProblem:
    """A recorded step that the rules would not have taken, with both sides."""
    named = ", ".join(found.expected) or "nothing"
    return ReplayProblem(
        "step",
        record.stream,
        record.version,
        record.position,
        f"version {found.version} is {found.recorded}, where the rules name {named}",
        recorded={"type": record.type, "fields": fields(found.event)},
        named=tuple(step_facts(step) for step in found.steps),
        state=None if found.state is None else bearing(found.state, found.event),
    )


def step_facts(step: Step) -> dict[str, object]:
    """A step as plain values."""
    return {"step": type(step).__name__, "fields": fields(step)}


def bearing(state: RunState, event: object) -> dict[str, object]:
    """What of a state bears on which step comes next: what is not as it is in a run at rest.

    Args:
        state: The run before the event.
        event: The event; of its calls only the one that it is about is shown, if it is about one.
    """
    named = getattr(event, "action", None)
    actions = [action for action in state.batch if named in {None, action.action}] or list(state.batch)
    told: dict[str, object] = {"phase": state.phase.value, "steps": state.steps, "index": state.index}
    more: dict[str, object] = {
        "rules": state.rules or None,
        "model": None if state.model is None else fields(state.model),
        "unplanned": [{"action": name, "tool": call.name} for name, call in state.unplanned],
        "calls": [_call(action) for action in actions],
        "finish": state.finish,
        "truncated": state.truncated,
        "closing": state.closing,
        "cancel": None if state.cancel is None else fields(state.cancel),
        "paused": None if state.control.pause is None else fields(state.control.pause),
        "overdue": state.control.overdue,
        "deadline": state.control.deadline,
        "refused": None if state.budget.refused is None else fields(state.budget.refused),
        "drift": plain(state.drift),
        "halt": None if state.halt is None else fields(state.halt),
        "failure": state.failure,
        "verdict": state.answer.verdict,
        "turn": None if state.turn is None else {"number": state.turn.place.number, "given": state.turn.given},
    }
    return told | {name: value for name, value in more.items() if value not in (None, False, "", [])}


def _call(action: Action) -> dict[str, object]:
    told: dict[str, object] = {
        "action": action.action,
        "tool": action.tool,
        "effect": action.effect.value,
        "gate": action.gate,
        "phase": action.phase.value,
        "attempt": action.attempt,
    }
    more: dict[str, object] = {
        "attempts": action.attempts,
        "request": action.request or None,
        "decision": None if action.decision is None else action.decision.decision,
        "votes": len(action.consent.votes) or None,
        "retry_at": action.retry_at,
        "verdict": action.verdict,
        "child": None if action.child is None else action.child.run,
    }
    return told | {name: value for name, value in more.items() if value is not None}


_CONVERTER: Final = cattrs.Converter()
# What is shown of events, steps and states is plain values already.
_CONVERTER.register_structure_hook_func(lambda type_: type_ is object, lambda value, _type: value)


def to_plain(replay: StreamReplay) -> object:
    """For another process; `from_plain` reads it."""
    told: object = cattrs.unstructure(replay)
    return told


def from_plain(told: object) -> StreamReplay:
    """What `to_plain` wrote."""
    return _CONVERTER.structure(told, StreamReplay)
