"""What an agent is given of hooks and models, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trouper.core.hook_ops import POINTS
from trouper.errors import DefinitionError
from trouper.models import Model

from ._hook import Hook, points_of


def hooks_in(given: Iterable[Hook]) -> tuple[Hook, ...]:
    """An agent's hooks.

    Raises:
        DefinitionError: Something is no hook.
    """
    if isinstance(given, Hook) or not isinstance(given, Iterable):
        raise DefinitionError(f"an agent's hooks: give a sequence of hooks, not {type(given).__name__}")
    hooks = tuple(given)
    for hook in hooks:
        if not isinstance(hook, Hook):
            raise DefinitionError(f"an agent's hooks: {hook!r} is none; derive from trouper.hooks.Hook")
        if not points_of(hook):
            raise DefinitionError(f"an agent's hooks: {hook.name} has none of a hook's methods")
    return hooks


def points_in(hooks: Iterable[Hook]) -> tuple[str, ...]:
    """The points at which hooks have something to say."""
    found = {point for hook in hooks for point in points_of(hook)}
    return tuple(point for point in POINTS if point in found)


def cast_of(agent: str, models: object, hooks: Iterable[Hook]) -> dict[str, Model]:
    """An agent's further models, and those that its hooks bring.

    Raises:
        DefinitionError: Something is no model, or two models have one name.
    """
    if not isinstance(models, Mapping):
        raise DefinitionError(f"agent {agent}, models: give a mapping of models by name, not {type(models).__name__}")
    found: dict[str, Model] = {}
    for given in (models, *(hook.models for hook in hooks)):
        for name, model in given.items():
            if not isinstance(name, str) or not name:
                raise DefinitionError(f"agent {agent}, models: {name!r} is no name")
            if isinstance(model, type) or not isinstance(model, Model):
                raise DefinitionError(f"agent {agent}, models, {name}: {model!r} is no model")
            if found.setdefault(name, model) is not model:
                raise DefinitionError(f"agent {agent}: two models are called {name}")
    return found
