"""What a tool may return where a plain value does not say it all."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import Attribute, field, frozen


def _check_update(_: ToolResult, __: Attribute[Mapping[str, object]], value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"ToolResult, update: {type(value).__name__} is not a mapping of values by state key")


@frozen
class ToolResult:
    """A tool's result with what goes beside it.

    Attributes:
        content: What the model is told, as if it had been returned alone.
        update: New values for keys of the run's named state (see `StateKey`), by key. Each goes through its key's
            reducer. If one does not fit, none is taken, and the model is told so.
    """

    content: object = None
    update: Mapping[str, object] = field(factory=dict, validator=_check_update, kw_only=True)
