"""Having a model sum up what is old."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen

from trouper.core import wording
from trouper.core.conversation import Human, Message, System, Value, pretty
from trouper.core.conversation import text as text_of
from trouper.core.exchange import ModelConfig
from trouper.core.hook_ops import Drop, Insert, Op, Spend
from trouper.errors import ModelError
from trouper.history import estimate_tokens
from trouper.models import Model

from ._checks import a_model, whole
from ._groups import droppable
from ._hook import Hook, View


@frozen(slots=False, eq=False)
class Summarise(Hook):
    """Has a model sum up the oldest messages when the conversation is too long, and shows the summary in their place.

    The record keeps the messages. A reply and the answers to its calls go together; system messages, the last human
    message and the last reply with its answers always stay. The summary is made by one request, whose tokens count as
    the run's. Where the model fails, all is shown as it is, and it is asked again before the next call.

    Attributes:
        model: Who is asked.
        above: How many tokens the conversation may take, by ``count``, before it is summed up.
        keep: How many of the newest messages are kept as they are, at least.
        count: Estimates the tokens of a message.
        timeout: Seconds that the request may take.

    Raises:
        DefinitionError: Something that is no model, or a number that is not a whole number of at least 1.
    """

    model: Model = field(validator=a_model)
    above: int = field(validator=whole, kw_only=True)
    keep: int = field(default=4, validator=whole, kw_only=True)
    count: Callable[[Message], int] = field(default=estimate_tokens, kw_only=True)
    timeout: float = field(default=120.0, kw_only=True)

    @property
    def models(self) -> Mapping[str, Model]:  # type: ignore[override]  # read from here, never set
        """The model, so that the runtime closes it."""
        return {self.model.name: self.model}

    def identity(self) -> Mapping[str, Value]:
        """Name and settings."""
        return {"hook": self.name, "model": self.model.name, "above": self.above, "keep": self.keep}

    async def before_model(self, view: View) -> list[Op] | None:
        """Sum up what is too much."""
        if sum(self.count(message) for message in view.messages) <= self.above:
            return None
        old = self._old(view)
        if not old:
            return None
        request = (System("summarise", wording.SUMMARISE), Human("conversation", pretty(old)))
        try:
            reply = await self.model.agenerate(request, (), ModelConfig())
        except ModelError:
            return [Spend(self.model.name)]
        spent = Spend(self.model.name, reply.usage.input_tokens, reply.usage.output_tokens)
        text = text_of(reply.message.content)
        if not text:
            return [spent]
        ids = [message.id for message in view.messages]
        place = ids.index(old[0].id)
        # What is dropped is dropped once: so the id is new.
        summary = Human(f"{view.run}/summary/{old[-1].id}", wording.summary(text))
        return [spent, Drop(message.id for message in old), Insert(summary, ids[place - 1] if place else "")]

    def _old(self, view: View) -> list[Message]:
        newest = {message.id for message in view.messages[-self.keep :]}
        found: list[Message] = []
        for group in droppable(view.messages):
            if any(message.id in newest for message in group):
                break
            found += group
        return found
