"""Which tools a model may see: chosen anew for each step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import evolve, frozen

from trouper._clock import Clock
from trouper.core.conversation import Message
from trouper.core.exchange import ModelConfig
from trouper.core.state import RunState
from trouper.core.terms import Principal
from trouper.tools import StateKeys, view
from trouper.tools._asking import Unanswered, ask
from trouper_journal import Plain


@frozen(slots=False, repr=False, eq=False)
class StepView(Plain):
    """A run as it stands before a model call, for choosing the tools of that call.

    Attributes:
        run: Id of the run.
        index: Number of the model call, from 0.
        messages: The run's own messages; what it started from is not among them.
        state: Its named state.
        grants: The permissions that it has.
        by: Who submitted it; None where nobody said.
    """

    run: str
    index: int
    messages: tuple[Message, ...]
    state: Mapping[str, Any]
    grants: tuple[str, ...]
    by: Principal | None


Bind: TypeAlias = Callable[[StepView], Iterable[str] | Awaitable[Iterable[str]]]
"""Names the tools of a step; plain or async."""


async def ask_bind(
    bind: Bind, state: RunState, *, keys: StateKeys, known: Sequence[str], clock: Clock
) -> tuple[tuple[str, ...], str]:
    """Ask which tools a step has: their names in the agent's order, and what is wrong, if anything.

    Args:
        bind: The callback.
        state: The run as it stands.
        keys: The keys of the agent's named state.
        known: Names of the agent's tools.
        clock: Source of time.
    """
    step = StepView(state.run, state.index, state.messages, view(keys, state.named), state.tools.grants, state.by)
    names = await ask(bind, step, read=_names, clock=clock)
    if isinstance(names, Unanswered):
        return (), f"bind {names.detail}"
    if isinstance(names, str):
        return (), f"bind answered {names}, which names no tools"
    if unknown := [name for name in names if name not in known]:
        return (), f"bind named {unknown[0]!r}, which is no tool of the agent; tools: {', '.join(known) or 'none'}"
    return tuple(name for name in known if name in names), ""


def _names(given: object) -> list[str] | str:
    """The names; what was given instead, where it holds none."""
    names = None if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if names is None or not all(isinstance(name, str) for name in names):
        return type(given).__name__
    return names


def chosen(config: ModelConfig, state: RunState, names: Iterable[str]) -> ModelConfig:
    """The settings of a request, as far as a forced choice of tools still holds.

    ``required``, or a tool's name, holds until the run's model has called a tool, or that tool: a model that had to
    call for ever could never answer. A tool that the step does not offer cannot be demanded either.

    Args:
        config: The agent's settings.
        state: The run as it stands.
        names: The tools that are offered.
    """
    choice, called = config.tool_choice, state.tools.called
    if choice in (None, "auto", "none"):
        return config
    over = bool(called) if choice == "required" else choice in called or choice not in set(names)
    if not over:
        return config
    return evolve(config, tool_choice="auto")
