"""Types that pydantic does not read by itself: attrs classes wherever they stand, and what holds them."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Union, cast

import attrs
import typing_extensions

from trouper_journal import Plain, Printable

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


@attrs.frozen(slots=False, repr=False, eq=False)
class Bridge(Plain):
    """Replaces such types in an annotation by ones that pydantic can read.

    Attributes:
        names: Local names that the classes' own annotations may use beside their modules' globals.
        within: The classes that it stands in, to notice recursion.
    """

    names: Mapping[str, object] = attrs.field(factory=dict, repr=False, eq=False)
    within: tuple[object, ...] = ()

    def over(self, annotation: Any) -> Any:
        """The annotation with such types replaced, inside containers and unions too.

        Raises:
            TypeError: For an attrs class that contains itself.
            NameError: For an annotation within a class that names nothing.
        """
        if isinstance(annotation, type) and typing.get_origin(annotation) is None:
            return self._class(annotation)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            return Annotated[self.over(arguments[0]), *annotation.__metadata__]
        if origin in {typing.Required, typing.NotRequired}:
            return origin[self.over(arguments[0])]
        if origin is typing.Literal or not arguments:
            return annotation
        if isinstance(origin, type) and attrs.has(origin):
            return self._fields(
                origin, annotation, _attrs_fields, dict(zip(_variables(origin), arguments, strict=True))
            )
        changed = tuple(self.over(argument) for argument in arguments)
        if all(new is old for new, old in zip(changed, arguments, strict=True)):
            return annotation
        if origin in {Union, types.UnionType}:
            return Union[changed]  # noqa: UP007 -- built at run time
        return types.GenericAlias(origin, changed)

    def _class(self, annotation: type) -> Any:
        if attrs.has(annotation):
            return self._fields(annotation, annotation, _attrs_fields, {})
        if typing.is_typeddict(annotation) or typing_extensions.is_typeddict(annotation):
            return self._typed_dict(annotation)
        if dataclasses.is_dataclass(annotation) and self._is_strange(annotation):
            return self._fields(annotation, annotation, _dataclass_fields, {})
        return annotation

    def _is_strange(self, annotation: type) -> bool:
        """Whether pydantic cannot read a dataclass, or says that fields can be sent which cannot."""
        if annotation in self.within or hasattr(annotation, "__pydantic_config__"):
            return False
        if any(not each.init for each in dataclasses.fields(annotation)):
            return True
        inner = attrs.evolve(self, within=(*self.within, annotation))
        hints = self._hints(annotation)
        return any(inner.over(hint) is not hint for hint in hints.values())

    def _hints(self, annotation: type) -> dict[str, Any]:
        return typing.get_type_hints(annotation, localns=dict(self.names), include_extras=True)

    def _fields(
        self, cls: type, annotation: object, fields: Callable[[type], Iterator[_Field]], bound: Mapping[object, object]
    ) -> Any:
        return Annotated[cls, _FieldsSchema(self, cls, annotation, fields, bound)]

    def _typed_dict(self, annotation: Any) -> Any:
        if annotation in self.within:
            return annotation
        inner = attrs.evolve(self, within=(*self.within, annotation))
        fields = {name: inner.over(part) for name, part in self._hints(annotation).items()}
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


@attrs.frozen(slots=False, repr=False, eq=False)
class _Field(Plain):
    """One argument of a class's constructor."""

    name: str
    argument: str
    required: bool


def _attrs_fields(cls: type) -> Iterator[_Field]:
    for each in attrs.fields(cls):
        if each.init and each.alias is not None:
            yield _Field(each.name, each.alias, each.default is attrs.NOTHING)


def _dataclass_fields(cls: type) -> Iterator[_Field]:
    for each in dataclasses.fields(cls):
        if each.init:
            required = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
            yield _Field(each.name, each.name, required)
    known = {each.name for each in dataclasses.fields(cls)}
    for parameter in inspect.signature(cls).parameters.values():
        # What is left is an InitVar, of which dataclasses tell nothing.
        if parameter.name not in known:
            yield _Field(parameter.name, parameter.name, parameter.default is parameter.empty)


def _variables(cls: type) -> tuple[object, ...]:
    return tuple(getattr(cls, "__parameters__", ()))


def _filled(hint: Any, bound: Mapping[object, object]) -> Any:
    """The hint with a generic class's variables filled in, and without the mark of a dataclass's InitVar."""
    if isinstance(hint, dataclasses.InitVar):
        hint = hint.type
    if hint in bound:
        return bound[hint]
    variables = getattr(hint, "__parameters__", ())
    if not bound or not variables or isinstance(hint, type):
        return hint
    return hint[tuple(bound.get(variable, variable) for variable in variables)]


@attrs.frozen(slots=False, eq=False, repr=False)
class _FieldsSchema(Printable):
    """Describes a class by its constructor, and builds the object through it."""

    bridge: Bridge
    cls: type
    annotation: object
    fields: Callable[[type], Iterator[_Field]]
    bound: Mapping[object, object]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        if self.annotation in self.bridge.within:
            raise TypeError(f"class {self.cls.__qualname__} contains itself; use a dataclass without attrs there")
        inner = attrs.evolve(self.bridge, within=(*self.bridge.within, self.annotation))
        hints = self.bridge._hints(self.cls)  # noqa: SLF001 -- of this module
        fields = {
            each.argument: core_schema.typed_dict_field(
                handler.generate_schema(inner.over(_filled(hints[each.name], self.bound))), required=each.required
            )
            for each in self.fields(self.cls)
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
