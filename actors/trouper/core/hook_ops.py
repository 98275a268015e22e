"""What a hook may ask for, as values: operations on messages by their ids, and on the call that is about to be made.

They are what is journaled of a hook, so that the hook itself is not needed to fold or replay a run.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

from attrs import field, frozen

from trouper.core.conversation import AI, Message, Value
from trouper_journal import Plain

Point: TypeAlias = Literal["before_model", "after_model", "before_tool", "after_tool", "on_error"]
"""Where in a run a hook is called."""

POINTS: Final[tuple[Point, ...]] = ("before_model", "after_model", "before_tool", "after_tool", "on_error")


@frozen(slots=False, repr=False, eq=False)
class Drop(Plain):
    """Leave messages out of what the model is shown, from now on; the run's record keeps them.

    Attributes:
        ids: Ids of the messages.
        through: Also leave out every message up to this one, and this one; None for none.
    """

    op: ClassVar[Literal["drop"]] = "drop"

    ids: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    through: str | None = None


@frozen(slots=False, repr=False, eq=False)
class Insert(Plain):
    """Show the model one more message, from now on.

    Attributes:
        message: The message; where its id is empty the runtime gives it one.
        after: Id of the message that it stands right behind; None for behind the last, ``""`` for before the first.
    """

    op: ClassVar[Literal["insert"]] = "insert"

    message: Message
    after: str | None = None


@frozen(slots=False, repr=False, eq=False)
class Replace(Plain):
    """Show the model another message in place of the one with its id, from now on; the run's record keeps that.

    Attributes:
        message: The message; its id is the other's. A reply must keep its calls.
    """

    op: ClassVar[Literal["replace"]] = "replace"

    message: Message


@frozen(slots=False, repr=False, eq=False)
class UseModel(Plain):
    """Let another model answer this one call.

    Attributes:
        name: Its name among the agent's ``models``, or those that its hooks bring.
        reason: Why.
    """

    op: ClassVar[Literal["model"]] = "model"

    name: str
    reason: str = ""


@frozen(slots=False, repr=False, eq=False)
class SetArguments(Plain):
    """Make the call with these arguments; they are checked against the tool as the model's own would be.

    Attributes:
        arguments: All of the arguments.
    """

    op: ClassVar[Literal["arguments"]] = "arguments"

    arguments: dict[str, Value]


@frozen(slots=False, repr=False, eq=False)
class Answer(Plain):
    """Before a call: answer it without making it. After a call: tell the model this in place of its result.

    Attributes:
        text: What the model is told.
        ok: Whether it is told as a result, or as an error.
    """

    op: ClassVar[Literal["answer"]] = "answer"

    text: str
    ok: bool = True


@frozen(slots=False, repr=False, eq=False)
class Reply(Plain):
    """Take this for the model's reply, without asking the model.

    Attributes:
        message: The reply, which may ask for calls.
    """

    op: ClassVar[Literal["reply"]] = "reply"

    message: AI


@frozen(slots=False, repr=False, eq=False)
class Update(Plain):
    """Write to the run's named state, through the reducers of its keys.

    Attributes:
        values: What is written, by key.
    """

    op: ClassVar[Literal["update"]] = "update"

    values: dict[str, Value]


@frozen(slots=False, repr=False, eq=False)
class Spend(Plain):
    """Say that the hook asked a model itself, so that the tokens count as the run's.

    Attributes:
        model: The model's name.
        input_tokens: Tokens of the request; None where the provider did not tell.
        output_tokens: Tokens of the reply; None where the provider did not tell.
    """

    op: ClassVar[Literal["spend"]] = "spend"

    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None


@frozen(slots=False, repr=False, eq=False)
class Fail(Plain):
    """End the run as failed; it can be resumed, and then the hooks of this point are called again.

    Attributes:
        reason: Why.
    """

    op: ClassVar[Literal["fail"]] = "fail"

    reason: str


Op: TypeAlias = Drop | Insert | Replace | UseModel | SetArguments | Answer | Reply | Update | Spend | Fail
"""Anything that a hook may ask for."""

MessageOp: TypeAlias = Drop | Insert | Replace

_MESSAGES: Final[tuple[type, ...]] = (Drop, Insert, Replace)
_ANYWHERE: Final[tuple[type, ...]] = (Update, Spend, Fail)
ALLOWED: Final[dict[Point, tuple[type, ...]]] = {
    "before_model": (*_MESSAGES, UseModel, Reply, *_ANYWHERE),
    "after_model": (*_MESSAGES, *_ANYWHERE),
    "before_tool": (SetArguments, Answer, *_ANYWHERE),
    "after_tool": (Answer, *_ANYWHERE),
    "on_error": (*_MESSAGES, UseModel, Reply, *_ANYWHERE),
}
"""What may be asked for at each point."""

LAST: Final[tuple[type, ...]] = (Reply, Fail)
"""What ends its point: hooks behind the one that asks for it are not called. So does an `Answer` before a call."""
