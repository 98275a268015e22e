"""Types that pydantic does not know by itself: attrs classes, also inside of typed dicts, and old typed dicts."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Union, cast

import attrs
import typing_extensions

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


def bridged(annotation: Any, within: tuple[type, ...] = ()) -> Any:
    """The annotation with such types replaced by ones that pydantic can read, inside containers and unions too.

    Args:
        annotation: Any resolved annotation.
        within: The classes that it stands in, to notice recursion.

    Raises:
        TypeError: For an attrs class that contains itself.
    """
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        if attrs.has(annotation):
            return Annotated[annotation, _AttrsSchema(annotation, within)]
        if typing.is_typeddict(annotation) or typing_extensions.is_typeddict(annotation):
            return _typed_dict(annotation, within)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return Annotated[bridged(arguments[0], within), *annotation.__metadata__]
    if origin in {typing.Required, typing.NotRequired}:
        return origin[bridged(arguments[0], within)]
    if origin is typing.Literal or not arguments:
        return annotation
    changed = tuple(bridged(argument, within) for argument in arguments)
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return annotation
    if origin in {Union, types.UnionType}:
        return Union[changed]  # noqa: UP007 -- built at run time
    return types.GenericAlias(origin, changed)


def _typed_dict(annotation: Any, within: tuple[type, ...]) -> Any:
    fields = {
        name: bridged(part, (*within, annotation))
        for name, part in typing.get_type_hints(annotation, include_extras=True).items()
    }
    # PEP 655 markers stand in the hints; what is unmarked follows the class's total, inherited keys too.
    required = annotation.__required_keys__
    marked = {
        name: part
        if typing.get_origin(part) in {typing.Required, typing.NotRequired}
        else (typing.Required if name in required else typing.NotRequired)[part]
        for name, part in fields.items()
    }
    make = cast("Callable[[str, dict[str, Any]], Any]", typing_extensions.TypedDict)
    return make(annotation.__name__, marked)


@attrs.frozen
class _AttrsSchema:
    """Describes an attrs class by its constructor, and builds the object through it."""

    cls: type
    within: tuple[type, ...]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        if self.cls in self.within:
            raise TypeError(f"attrs class {self.cls.__qualname__} contains itself; use a dataclass there")
        hints = typing.get_type_hints(self.cls, include_extras=True)
        fields = {
            each.alias: core_schema.typed_dict_field(
                handler.generate_schema(bridged(hints[each.name], (*self.within, self.cls))),
                required=each.default is attrs.NOTHING,
            )
            for each in attrs.fields(self.cls)
            if each.init and each.alias is not None
        }
        return core_schema.no_info_after_validator_function(
            self.build, core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        )

    def build(self, fields: dict[str, object]) -> object:
        try:
            return self.cls(**fields)
        except TypeError as error:
            # attrs' own validators raise it; pydantic takes only ValueError for a misfit.
            raise ValueError(str(error)) from error
