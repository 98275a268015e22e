"""The rules for what a run's tools do to its course: which of them a step has, and when one ends the run."""

from __future__ import annotations

from trouper.core import wording
from trouper.core.state import RunState
from trouper.core.steps import BindTools, Fail, RequestModel, Step, Succeed


def before_binding(state: RunState, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The choice of a model call's tools, before it is made; attempts at the same call have the same tools."""
    if not state.terms.binds:
        return steps
    return tuple(
        _choice(state, step.index) or step if isinstance(step, RequestModel) and not step.closing else step
        for step in steps
    )


def _choice(state: RunState, index: int) -> Step | None:
    tools = state.tools
    if tools.bound_for != index:
        return BindTools(index)
    return Fail("binding", tools.misbound) if tools.misbound else None


def returned(state: RunState) -> Step | None:
    """The run's end by a result that is its output; None where the model has to go on.

    A reply ends the run so if all its calls are of tools that return directly and all of them did what was asked; the
    last of them gives the output. Nothing that somebody said since may be unheard, and no evidence may be missing.
    Where a structured output is wanted (by a definition that was adopted meanwhile), no result is one.
    """
    source = state.tools.direct
    if source is None or state.terms.output or wording.missing(state):
        return None
    if not state.messages or state.messages[-1].role != "tool":
        return None
    return Succeed(source)
