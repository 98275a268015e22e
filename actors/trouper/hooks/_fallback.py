"""Other models for when one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from attrs import Attribute, field, frozen

from trouper.core.conversation import Value
from trouper.core.hook_ops import UseModel
from trouper.errors import DefinitionError
from trouper.models import Model

from ._hook import Hook, ModelFailure, View

On: TypeAlias = Literal["error", "final"] | Callable[[ModelFailure], bool]


def _by_name(given: Sequence[Model] | Mapping[str, Model]) -> Mapping[str, Model]:
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, Sequence):
        raise DefinitionError(f"ModelFallback: give a sequence of models, not {type(given).__name__}")
    found: dict[str, Model] = {}
    for model in given:
        if isinstance(model, type) or not isinstance(model, Model):
            raise DefinitionError(f"ModelFallback: {model!r} is no model")
        if model.name in found:
            raise DefinitionError(f"ModelFallback: two models are called {model.name}; give a mapping by name")
        found[model.name] = model
    return found


def _check_on(_: object, __: Attribute[On], value: object) -> None:
    if value not in ("error", "final") and not callable(value):
        raise DefinitionError(f"ModelFallback, on: {value!r} is neither 'error' nor 'final' nor a function")


@frozen(slots=False, eq=False)
class ModelFallback(Hook):
    """Asks other models, in this order, when the agent's own fails: for the call that failed, not for those after it.

    The reason is journaled. When the last of them has failed too, it goes on by the run's own rules: what may pass is
    tried again, anything else fails the run.

    Attributes:
        models: The models in order, or by names of your own.
        on: ``error``: at each failed attempt; ``final``: when nothing more would be tried; or a function that says for
            a `ModelFailure` whether to go on to the next model.

    Raises:
        DefinitionError: Something that is no model, or two models of one name.
    """

    models: Mapping[str, Model] = field(converter=_by_name)
    on: On = field(default="error", validator=_check_on, kw_only=True)

    def identity(self) -> Mapping[str, Value]:
        """Name and settings."""
        return {"hook": self.name, "models": [*self.models], "on": self.on if isinstance(self.on, str) else "own"}

    async def on_error(self, view: View, error: ModelFailure) -> UseModel | None:  # noqa: ARG002
        """The next model, if there is one."""
        wanted = self.on(error) if callable(self.on) else self.on == "error" or error.final
        names = [*self.models]
        place = names.index(error.model) + 1 if error.model in names else 0
        if not wanted or place == len(names):
            return None
        return UseModel(names[place], f"{error.model or 'the own model'} failed: {error.message}"[:500])
