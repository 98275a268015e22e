"""Named state: keys with a type and a reducer, what may be written to them, and the view that tools and hooks get."""

from __future__ import annotations

import copy
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from trouper.core.conversation import Value
from trouper.core.events import StateOp
from trouper.errors import ArgumentsError, DefinitionError, SchemaError
from trouper_journal import Printable
from trouper_journal._errors import InvalidValue

from ._arguments import converted
from ._context import NO_STATE
from ._outcomes import described
from ._results import to_value
from ._schema import Described, describe
from ._shape import inlined, normal
from ._signature import MISSING, Parameter

Reducer: TypeAlias = Callable[[Any, Any], object]
"""Makes a key's new value of its old one (None where there is none) and what was written, a plain value."""

BUILT_IN: Final = ("replace", "append", "merge")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_OF = {"append": list, "merge": dict}
_OPS: Final[dict[str, Literal["set", "append", "merge"]]] = {"replace": "set", "append": "append", "merge": "merge"}


@frozen(slots=False, eq=False, repr=False)
class StateKey(Printable):
    """A key of a run's named state: ``Agent(state={"notes": StateKey(list[str], reducer="append")})``.

    Attributes:
        type: What the value is: any annotation that a tool's parameter may have.
        reducer: What becomes of a value that is written: ``replace`` puts it in place of the old one; ``append`` makes
            it one more element of the list; ``merge`` merges its entries into the mapping, the new ones winning; or a
            function ``(old, new) -> value`` of your own. That is called once, when the write is recorded, with the
            old value as its type says (None where there is none) and the new one as plain data; it must be quick, and
            have no effects.
        default: What the key holds before anything is written. Without one, a key with ``append`` begins as an empty
            list, one with ``merge`` as an empty mapping, and any other is not there until it is written.

    Raises:
        DefinitionError: A type that has no JSON, ``append`` on anything but a list, ``merge`` on anything but a
            mapping, or a default that does not fit.
    """

    type: Any
    reducer: Literal["replace", "append", "merge"] | Reducer = "replace"
    default: object = field(default=MISSING, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _ = self._described
        if not callable(self.reducer):
            if self.reducer not in BUILT_IN:
                raise DefinitionError(f"state key, reducer: {self.reducer!r} is none of {', '.join(BUILT_IN)}")
            wanted = _OF.get(self.reducer)
            if wanted is not None and (typing.get_origin(self.type) or self.type) is not wanted:
                raise DefinitionError(f"state key, reducer: {self.reducer!r} needs a {wanted.__name__}")
        _ = self.initial

    @cached_property
    def _described(self) -> Described:
        try:
            return describe("state", Parameter("value", self.type, MISSING))
        except SchemaError as error:
            raise DefinitionError(f"state key: {str(error).partition(': ')[2]}") from error

    @cached_property
    def initial(self) -> Value:
        """The plain value that the key begins with; None where it has none (see `starts`)."""
        if self.default is MISSING:
            empty: dict[str, Value] = {"append": [], "merge": {}}
            return empty.get(self._built_in)
        try:
            return self.plain("default", self.default)
        except ArgumentsError as error:
            raise DefinitionError(f"state key: {error}") from error

    @property
    def starts(self) -> bool:
        """Whether the key holds something before anything is written."""
        return self.default is not MISSING or self._built_in in _OF

    @property
    def _built_in(self) -> str:
        return self.reducer if isinstance(self.reducer, str) else ""

    def plain(self, place: str, value: object) -> Value:
        """A value as it is journaled, checked against the type.

        Raises:
            ArgumentsError: It does not fit; each misfit is named by its path.
        """
        try:
            plain = to_value(value)
        except InvalidValue as error:
            raise ArgumentsError(f"{place}: {error.reason}") from error
        problems, _ = converted(place, plain, self._described.adapter)
        if problems:
            raise ArgumentsError("; ".join(f"{each.path}: {each.reason}" for each in problems))
        return plain

    def load(self, value: Value) -> Any:
        """The Python value of a journaled one, new each time; one that does not fit any more comes as it stands."""
        problems, loaded = converted("value", value, self._described.adapter)
        return copy.deepcopy(value) if problems else loaded

    def change(self, name: str, old: Value, new: object, *, there: bool) -> StateOp:
        """The change that writing a value comes to.

        Args:
            name: The key's name.
            old: What it holds.
            new: What is written.
            there: Whether it holds anything.

        Raises:
            ArgumentsError: It does not fit, or the reducer raised.
        """
        if not callable(self.reducer):
            inner = [new] if self.reducer == "append" else new
            plain = self.plain(name, inner)
            value = plain[0] if self.reducer == "append" and isinstance(plain, list) else plain
            return StateOp(_OPS[self.reducer], name, value)
        try:
            made = self.reducer(self.load(old) if there else None, to_value(new))
        except InvalidValue as error:
            raise ArgumentsError(f"{name}: {error.reason}") from error
        except Exception as error:
            raise ArgumentsError(f"{name}: its reducer raised {described(error)}") from error
        return StateOp("set", name, self.plain(name, made))

    def contract(self) -> Value:
        """What enters the definition document."""
        told: dict[str, Value] = {
            "schema": normal(inlined(self._described.schema)),
            "reducer": self.reducer if isinstance(self.reducer, str) else f"own:{_called(self.reducer)}",
        }
        return told if self.default is MISSING else {**told, "default": self.initial}


def _called(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


StateKeys: TypeAlias = Mapping[str, StateKey]


def check_keys(agent: str, keys: object) -> None:
    """Refuse what is no mapping of keys.

    Raises:
        DefinitionError: It is none.
    """
    if not isinstance(keys, Mapping):
        raise DefinitionError(f"agent {agent}, state: give a mapping of StateKey by name, not {type(keys).__name__}")
    for name, key in keys.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(f"agent {agent}, state: {name!r} is no name; use letters, digits and '_'")
        if not isinstance(key, StateKey):
            raise DefinitionError(f"agent {agent}, state, {name}: give a StateKey, not {type(key).__name__}")


def defaults_of(keys: StateKeys) -> dict[str, Value] | None:
    """What the keys hold before anything is written; None where that is nothing."""
    return {name: key.initial for name, key in keys.items() if key.starts} or None


def misfits(keys: StateKeys, values: Mapping[str, object]) -> str:
    """What of the whole values does not fit its key; empty where all does."""
    wrong: list[str] = []
    for name, value in values.items():
        try:
            _key(keys, name).plain(name, value)
        except ArgumentsError as error:
            wrong.append(str(error))
    return "; ".join(wrong)


def changes(keys: StateKeys, named: Mapping[str, Value], update: Mapping[str, object]) -> tuple[StateOp, ...]:
    """The changes that an update of the named state comes to, each through its key's reducer.

    Args:
        keys: The agent's keys.
        named: The state as it stands.
        update: What is written, by key.

    Raises:
        ArgumentsError: Something does not fit, or there is no such key; then nothing must be changed.
    """
    ops: list[StateOp] = []
    wrong: list[str] = []
    for name, value in update.items():
        try:
            ops.append(_key(keys, name).change(name, named.get(name), value, there=name in named))
        except ArgumentsError as error:
            wrong.append(str(error))
    if wrong:
        raise ArgumentsError("; ".join(wrong))
    return tuple(ops)


def _key(keys: StateKeys, name: str) -> StateKey:
    found = keys.get(name)
    if found is None:
        raise ArgumentsError(f"{name}: there is no such state key (keys: {', '.join(keys) or 'none'})")
    return found


@frozen(slots=False, eq=False, repr=False)
class StateView(Mapping[str, Any]):
    """Named state as Python values, to read only: each look gives a value of its own, which may be changed freely."""

    _keys: StateKeys
    _values: Mapping[str, Value]

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        key = self._keys.get(name)
        return copy.deepcopy(value) if key is None else key.load(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"StateView({', '.join(self._values)})"


def view(keys: StateKeys, values: Mapping[str, Value]) -> Mapping[str, Any]:
    """The named state as Python values, to read only."""
    return StateView(keys, values) if values else NO_STATE
