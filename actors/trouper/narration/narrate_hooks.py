"""Sentences about hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core.events import HookApplied, HookDone
from trouper.core.hook_ops import Answer, Drop, Fail, Insert, Op, Replace, Reply, SetArguments, Spend, UseModel
from trouper.narration.line import ERASED_TEXT, Line, because_text
from trouper.narration.text import clean, cut, quoted, value_text
from trouper_journal import Erased

_WHEN = {
    "before_model": "before request",
    "after_model": "behind reply",
    "before_tool": "before call",
    "after_tool": "behind call",
    "on_error": "about the failure of request",
}


def _applied(event: HookApplied, limit: int | None) -> Line:
    when = f"{_WHEN[event.point]} {clean(event.subject)}"
    if event.failed:
        return Line("hooks", f"{when} end the run as failed{because_text(event.reason, limit)}", "bad")
    if isinstance(event.done, Erased):
        said = ERASED_TEXT
    else:
        said = "; ".join(_done(done, limit) for done in event.done) or "nothing to change"
    late = ", overtaken by what was said meanwhile" if event.overtaken else ""
    return Line("hooks", f"{when}{late}: {said}")


def _done(done: HookDone, limit: int | None) -> str:
    if done.error is not None:
        return f"{clean(done.hook)} failed and says nothing: {quoted(done.error, limit)}"
    # What it writes to the state stands in an event of its own.
    said = ", ".join(_op(op, limit) for op in done.ops) or "writes to the state"
    return f"{clean(done.hook)} {said}"


def _op(op: Op, limit: int | None) -> str:
    match op:
        case Drop(ids, through):
            behind = f"all through {clean(through)}" if through else ""
            return f"drops {clean(cut(', '.join(ids), limit))}{behind}"
        case Insert(message):
            return f"inserts {clean(message.id)}"
        case Replace(message):
            return f"replaces {clean(message.id)}"
        case UseModel(name, reason):
            return f"chooses model {clean(name)}: {quoted(reason, limit)}" if reason else f"chooses model {clean(name)}"
        case SetArguments(arguments):
            return f"changes the arguments to {value_text(arguments, limit)}"
        case Answer(text):
            return f"answers {quoted(text, limit)}"
        case Reply():
            return "answers for the model"
        case Spend(model):
            return f"asked model {clean(model)}"
        case Fail(reason):
            return f"fails the run: {quoted(reason, limit)}"
        case _:
            return "writes to the state"


HOOK_SENTENCES: Mapping[type, Callable[..., Line]] = {HookApplied: _applied}
