"""How instances of attrs classes are written and read: cattrs generates the code, ``_shapes`` has the hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, NewType, Union, cast, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from trouper_journal import _shapes
from trouper_journal._errors import InvalidRegistry
from trouper_journal._printable import Printable
from trouper_journal._shapes import VALUE, Erased, Fields, MisfitError, Parts, Shape
from trouper_journal._values import Value, pack_plain


def without_erased(annotation: object) -> object:
    """The type of a content field without ``Erased``; the annotation itself for a fact."""
    if not is_content(annotation):
        return annotation
    return Union[tuple(arg for arg in get_args(annotation) if arg is not Erased)]  # noqa: UP007 - built at run time


def is_content(annotation: object) -> bool:
    """Whether an annotation is ``Content[...]``."""
    return get_origin(annotation) in (Union, UnionType) and Erased in get_args(annotation)


@attrs.define(slots=True, eq=False, repr=False)
class Shapes(Printable):
    """Shapes of the classes met so far."""

    converter: Converter = attrs.Factory(lambda: Converter(detailed_validation=False))
    _classes: dict[type, Shape] = attrs.Factory(dict)

    def of(self, annotation: object, where: str) -> Shape:
        """The shape of a type.

        Raises:
            InvalidRegistry: Values of this type cannot be stored.
        """
        leaf = _shapes.LEAVES.get(annotation) if annotation is None or isinstance(annotation, type) else None
        if leaf is not None:
            return leaf
        origin, args = get_origin(annotation), get_args(annotation)
        if isinstance(annotation, NewType):
            return self.of(annotation.__supertype__, where)
        if origin is Literal:
            return _shapes.literal(args, where)
        if origin in (Union, UnionType):
            return self._union(args, where)
        if origin is tuple and len(args) == 2 and args[1] is ...:
            return _shapes.sequence(self.of(args[0], where))
        if origin is tuple and args:
            return _shapes.fixed(tuple(self.of(arg, where) for arg in args))
        if origin in (dict, Mapping) and args[0] is str:
            return _shapes.mapping(self.of(args[1], where))
        if isinstance(annotation, type) and issubclass(annotation, Enum) and annotation is not Erased:
            return _shapes.enum(annotation, where)
        if isinstance(annotation, type) and attrs.has(annotation):
            return self._class(annotation)
        raise InvalidRegistry(f"{where}: values of type {annotation} cannot be stored")

    def fields(self, cls: type) -> dict[str, Shape]:
        """The shapes of the fields of a class, by name.

        Raises:
            InvalidRegistry: A field has no type, or one whose values cannot be stored.
        """
        try:
            attrs.resolve_types(cls)
        except (NameError, TypeError) as error:
            raise InvalidRegistry(f"{cls.__qualname__}: a field's type cannot be resolved: {error}") from error
        shapes = {}
        for field in attrs.fields(cls):
            where = f"{cls.__qualname__}.{field.name}"
            if not field.init or field.type is None:
                raise InvalidRegistry(f"{where}: a stored field has a type and is given to the constructor")
            shapes[field.name] = self.of(without_erased(field.type), where)
        return shapes

    def writer(self, cls: type, shapes: Mapping[str, Shape], only: frozenset[str]) -> Callable[[object], Fields]:
        """A function that writes these fields of an instance, leaving out those that are written as their defaults."""
        fields = attrs.fields_dict(cls)
        defaults = {name: fields[name].default for name in only if fields[name].default is not attrs.NOTHING}
        # 0 == False and 0.0 == -0.0: where another value equals the default, only what is written tells them apart.
        near = {name for name, default in defaults.items() if not _stands_alone(default, shapes[name])}
        overrides: dict[str, Any] = {
            name: override(omit=name not in only, unstruct_hook=shape.write, omit_if_default=name not in near)
            for name, shape in shapes.items()
        }
        function: object = make_dict_unstructure_fn(cls, self.converter, _cattrs_omit_if_default=True, **overrides)
        write = cast("Callable[[object], Fields]", function)
        written = {name: _written(defaults[name], shapes[name]) for name in near}
        order = sorted((name for name in fields if name in only), key=lambda name: name in defaults)
        return _leaving_out(write, order, {name: packed for name, packed in written.items() if packed is not None})

    def reader(self, cls: type, shapes: Mapping[str, Shape]) -> Callable[[Fields], object]:
        """A function that calls the constructor with the written fields."""
        overrides: dict[str, Any] = {name: override(struct_hook=shape.read) for name, shape in shapes.items()}
        function: object = make_dict_structure_fn(
            cls, self.converter, _cattrs_forbid_extra_keys=False, _cattrs_detailed_validation=False, **overrides
        )
        return cast("Callable[[Fields], object]", function)

    def _class(self, cls: type) -> Shape:
        known = self._classes.get(cls)
        if known is not None:
            return known
        # Entered before its fields are looked at, so that a class may contain itself.
        shape = self._classes[cls] = Shape((dict,), (cls,), _unfinished, _unfinished)
        shapes = self.fields(cls)
        names = frozenset(shapes)
        name = cls.__qualname__
        writer: Callable[[object], Fields] | None = None
        reader: Callable[[Fields], object] | None = None

        def write(value: object) -> object:
            nonlocal writer
            if type(value) is not cls:
                raise MisfitError(name, value)
            if writer is None:
                writer = self.writer(cls, shapes, names)
            return writer(value)

        def read(value: object, _: object) -> object:
            nonlocal reader
            if type(value) is not dict:
                raise MisfitError(f"a map for {name}", value)
            if not value.keys() <= names:
                raise ValueError(f"unknown field {min(value.keys() - names)!r} of {name}")
            if reader is None:
                reader = self.reader(cls, shapes)
            return reader(value)

        shape.write, shape.read, shape.parts = write, read, _class_parts(cls, shapes)
        return shape

    def _union(self, args: Sequence[object], where: str) -> Shape:
        if Value in args:
            return VALUE
        classes = [arg for arg in args if isinstance(arg, type) and attrs.has(arg)]
        members = [self.of(arg, where) for arg in args if arg not in classes and arg is not NoneType]
        if len(classes) > 1:
            members.append(self._tagged(classes, where))
        else:
            members += [self._class(cls) for cls in classes]
        shape = members[0] if len(members) == 1 else _shapes.one_of(members, where)
        return _shapes.optional(shape) if NoneType in args else shape

    def _tagged(self, classes: Sequence[type], where: str) -> Shape:
        key = _tag_name(classes, where)
        tags = {cls: getattr(cls, key) for cls in classes}
        shapes = {tag: self._class(cls) for cls, tag in tags.items()}

        def write(value: object) -> object:
            tag = tags.get(type(value))
            if tag is None:
                raise MisfitError(f"one of {', '.join(shapes)}", value)
            return {key: tag, **cast("Fields", shapes[tag].write(value))}

        def read(value: object, kind: object) -> object:
            if type(value) is not dict:
                raise MisfitError("a map", value)
            fields = dict(value)
            tag = fields.pop(key)
            shape = shapes.get(tag) if type(tag) is str else None
            if shape is None:
                raise ValueError(f"{key} is not one of {', '.join(shapes)}")
            return shape.read(fields, kind)

        def parts(value: object) -> Iterator[tuple[str, Shape, object]]:
            if type(value) in tags:
                yield from shapes[tags[type(value)]].parts(value)
            elif type(value) is dict and type(value.get(key)) is str and value[key] in shapes:
                yield from shapes[value[key]].parts(value)

        return Shape((dict,), tuple(classes), write, read, parts)


def _unfinished(*_: object) -> object:
    raise AssertionError("a class is used before its fields are known")


def _stands_alone(default: object, shape: Shape) -> bool:
    """Whether no value equals the default but one that is written as it is."""
    if isinstance(default, cast("type[Any]", attrs.Factory)):
        return not default.takes_self and _stands_alone(default.factory(), shape)
    if shape is VALUE:
        return default is None
    kinds = set(shape.live)
    if type(default) is bool:
        return kinds.isdisjoint((int, float))
    if type(default) is int:
        return kinds.isdisjoint((bool, float))
    if type(default) is float:
        return default != 0 and shape.wire == (float,)
    return all(_stands_alone(part, inner) for _, inner, part in shape.parts(default))


def _written(default: object, shape: Shape) -> bytes | None:
    """The packed bytes of a default; None for one that is made anew from each instance."""
    if isinstance(default, cast("type[Any]", attrs.Factory)):
        return None if default.takes_self else _written(default.factory(), shape)
    return pack_plain(shape.write(default))


def _leaving_out(
    write: Callable[[object], Fields], order: Sequence[str], defaults: Mapping[str, bytes]
) -> Callable[[object], Fields]:
    if not defaults:
        return write

    def write_rest(value: object) -> Fields:
        fields = write(value)
        for name, packed in defaults.items():
            if pack_plain(fields[name]) == packed:
                del fields[name]
        # What may be left out comes last, as in every class.
        return {name: fields[name] for name in order if name in fields}

    return write_rest


def _class_parts(cls: type, shapes: Mapping[str, Shape]) -> Parts:
    def parts(value: object) -> Iterator[tuple[str, Shape, object]]:
        if isinstance(value, cls):
            yield from ((f".{name}", shape, getattr(value, name)) for name, shape in shapes.items())
        elif type(value) is dict:
            yield from ((f".{name}", shape, value[name]) for name, shape in shapes.items() if name in value)

    return parts


def _tag_name(classes: Sequence[type], where: str) -> str:
    """The class variable that tells the members of a union apart, by values that they name themselves."""
    names = [{name for name, kind in cls.__annotations__.items() if _is_class_variable(kind)} for cls in classes]
    common = set.intersection(*names)
    found = []
    for name in sorted(common):
        tags = [getattr(cls, name, None) for cls in classes]
        if all(type(tag) is str for tag in tags) and len(set(tags)) == len(tags):
            found.append(name)
    if len(found) != 1:
        listed = ", ".join(cls.__qualname__ for cls in classes)
        raise InvalidRegistry(
            f"{where}: {listed} need one class variable, such as kind, with a text of its own in each"
        )
    return found[0]


def _is_class_variable(annotation: object) -> bool:
    if isinstance(annotation, str):
        return annotation.removeprefix("typing.").startswith("ClassVar")
    return annotation is ClassVar or get_origin(annotation) is ClassVar
