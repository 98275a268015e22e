"""The options of a runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from attrs import Attribute, field, frozen

from trouper.approvals import Policy, check_policies, policies
from trouper.core.prices import Price
from trouper.errors import DefinitionError
from trouper.runtime.desk import DriftPolicy
from trouper.tools import Authorize
from trouper_journal import JournalOptions, Plain

_T = TypeVar("_T")


def _refusal(attribute: Attribute[_T], reason: str) -> DefinitionError:
    return DefinitionError(f"runtime option {attribute.name}: {reason}")


def _copied(given: Mapping[str, Price]) -> Mapping[str, Price]:
    anything: object = given
    if not isinstance(anything, Mapping):
        raise DefinitionError(f"runtime option prices: give a mapping by model name, not {type(anything).__name__}")
    return dict(given)


def _check_prices(_: object, attribute: Attribute[Mapping[str, Price]], prices: Mapping[str, Price]) -> None:
    name: object
    entry: object
    for name, entry in prices.items():
        if not isinstance(name, str) or not isinstance(entry, Price):
            raise _refusal(attribute, f"{name!r}: {entry!r} is not a Price by the name of a model")


def _must_be(kind: type[_T]) -> Callable[[object, Attribute[_T], _T], None]:
    def check(_: object, attribute: Attribute[_T], value: object) -> None:
        if not isinstance(value, kind):
            raise _refusal(attribute, f"give a {kind.__name__}, not {type(value).__name__}")

    return check


def _seconds(_: object, attribute: Attribute[float], value: object) -> None:
    # No number compares with NaN; infinity means not to give up.
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise _refusal(attribute, f"{value!r} is not a number of seconds of at least 0")


def _count(_: object, attribute: Attribute[int], value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _refusal(attribute, f"{value!r} is not a whole number of at least 1")


def _optional_count(_: object, attribute: Attribute[int | None], value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise _refusal(attribute, f"{value!r} is neither None nor a whole number of at least 1")


def _callback(_: object, attribute: Attribute[Authorize | None], value: object) -> None:
    if value is not None and not callable(value):
        raise _refusal(attribute, f"give a function, not {type(value).__name__}")


def _check_approvals(_: object, __: Attribute[Sequence[Policy]], given: object) -> None:
    check_policies("runtime option approvals", given)


@frozen(slots=False, repr=False, eq=False)
class RuntimeOptions(Plain):
    """How a runtime works.

    Attributes:
        drift: What to do when an agent is not defined as it was when a run began.
        max_active: How many runs are in memory at most; others wait in the journal until there is room.
        drain: Seconds that what is under way has to end when the runtime stops; then it is cancelled, and has as long
            again for its outcome to be recorded.
        grace: Seconds that a cancelled tool has to clean up.
        model_concurrency: How many calls of one model may be out at once; None for no limit.
        authorize: Asked about each call just before it starts, and may deny it (see `AuthorizeRequest`).
        prices: What models cost, by their names (``Model.name``, or the name that the provider answers with).
        node: Name of this process in the journal.
        journal: Options of the journal.
        approvals: Approval policies that come before those of every agent.

    Raises:
        DefinitionError: An option that cannot be meant.
    """

    drift: DriftPolicy = field(factory=DriftPolicy, validator=_must_be(DriftPolicy))
    max_active: int = field(default=1000, validator=_count)
    drain: float = field(default=5.0, validator=_seconds)
    grace: float = field(default=2.0, validator=_seconds)
    model_concurrency: int | None = field(default=None, validator=_optional_count)
    prices: Mapping[str, Price] = field(factory=dict, converter=_copied, validator=_check_prices)
    node: str = field(default="runtime", validator=_must_be(str))
    journal: JournalOptions = field(factory=JournalOptions, validator=_must_be(JournalOptions))
    authorize: Authorize | None = field(default=None, validator=_callback, kw_only=True)
    approvals: Sequence[Policy] = field(default=(), converter=policies, validator=_check_approvals)
