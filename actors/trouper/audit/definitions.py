"""What a definition document says a model was told: instructions, tools and settings, without the agent's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from attrs import frozen

from trouper.binding import chosen
from trouper.core import wording
from trouper.core.budget import Refusal
from trouper.core.conversation import System, Value
from trouper.core.definition import Definition, define, stream_of
from trouper.core.exchange import ModelConfig
from trouper.core.run_events import DefinitionRecorded
from trouper.core.state import RunState
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper.output import FINAL_RESULT, HAND_IN, answer_instructions, answer_wrap_up
from trouper_journal import Erased, Journal, Plain

Standing = Literal["matches", "differs", "missing", "erased", "unread"]
"""Whether a document is the one that its digest names; ``unread``: of a newer release, or in an archive."""


@frozen(slots=False, repr=False, eq=False)
class Offered(Plain):
    """A tool as a model was told of it.

    Attributes:
        name: What the model calls it.
        description: What it is for.
        parameters: JSON Schema of its arguments in normal form: without titles, with references put in.
        descriptions: What the model was told of the parameters, by path.
    """

    name: str
    description: str
    parameters: Mapping[str, Value]
    descriptions: Mapping[str, Value]


@frozen(slots=False, repr=False, eq=False)
class Document(Plain):
    """A definition document as the journal holds it.

    Attributes:
        digest: The digest that a run has pinned.
        standing: Whether the document is the one that the digest names.
        definition: The document; None where it is missing or erased.
    """

    digest: str
    standing: Standing
    definition: Definition | None = None

    @property
    def agent(self) -> str:
        """The agent's name; empty where it is not known."""
        return _text(self._contract.get("name"))

    @property
    def instructions(self) -> str:
        """The standing orders, as its author wrote them."""
        return _text(self._prose.get("instructions"))

    @property
    def _contract(self) -> Mapping[str, Value]:
        return {} if self.definition is None else self.definition.contract

    @property
    def _prose(self) -> Mapping[str, Value]:
        return {} if self.definition is None else self.definition.prose

    @property
    def mode(self) -> str:
        """How the model was brought to give a structured output: a mode, or nothing where none was asked for."""
        return _text(_mapping(self._prose.get("output")).get("mode"))

    @property
    def exact(self) -> bool:
        """Whether the instructions are to the letter what was sent.

        A schema that stands in the instructions is kept in normal form: titles and the order of its keys are not.
        """
        return self.definition is not None and self.mode != "instruction"

    @property
    def _schema(self) -> Mapping[str, Value]:
        return _mapping(_mapping(self._contract.get("output")).get("schema"))

    def briefing(self) -> tuple[System, ...]:
        """What stands before the conversation."""
        told = answer_instructions(self.mode, self._schema)
        text = "\n\n".join(part for part in (self.instructions, told) if part)
        return (System(id="instructions", content=text),) if text else ()

    def wrap_up(self, refusal: Refusal | None) -> System:
        """The word to come to an end."""
        text = answer_wrap_up(self.mode, self._schema) if self.mode else wording.wrap_up(refusal)
        return System(id="wrap-up", content=text)

    def tools(self, *, closing: bool, bound: tuple[str, ...] | None) -> tuple[Offered, ...]:
        """The tools of a request."""
        own = () if closing else tuple(self._own_tools())
        if bound is not None:
            own = tuple(tool for tool in own if tool.name in bound)
        return (*own, Offered(FINAL_RESULT, HAND_IN, self._schema, {})) if self.mode == "tool" else own

    def _own_tools(self) -> Iterator[Offered]:
        told = _mapping(self._prose.get("tools"))
        for name, contract in _mapping(self._contract.get("tools")).items():
            words = _mapping(told.get(name))
            yield Offered(
                name,
                _text(words.get("description")),
                _mapping(_mapping(contract).get("parameters")),
                _mapping(words.get("parameters")),
            )

    def model(self, name: str) -> Mapping[str, Value]:
        """The model's identity: the agent's own, or the further one that hooks chose by its name."""
        return _mapping(_mapping(self._prose.get("models")).get(name) if name else self._prose.get("model"))

    def settings(self, state: RunState, tools: tuple[Offered, ...], *, closing: bool) -> Mapping[str, Value]:
        """The settings of a request, as far as they say something."""
        said = dict(_mapping(self._prose.get("config")))
        choice = said.get("tool_choice")
        if isinstance(choice, str):
            said["tool_choice"] = chosen(
                ModelConfig(tool_choice=choice), state, [tool.name for tool in tools]
            ).tool_choice
        if self.mode == "tool" and closing:
            said["tool_choice"] = "required"
        if self.mode == "native":
            said["output"] = {"schema": dict(self._schema)}
        return said


def document_of(digest: str, event: DefinitionRecorded) -> Document:
    """A recorded document, held against the digest that names it."""
    if isinstance(event.document, Erased):
        return Document(digest, "erased")
    contract, prose = _mapping(event.document.get("contract")), _mapping(event.document.get("prose"))
    definition = define(contract, prose)
    return Document(digest, "matches" if definition.digest == digest else "differs", definition)


async def read_document(journal: Journal, digest: str) -> Document:
    """The definition document that a run has pinned.

    Raises:
        JournalError: The journal cannot be read.
    """
    for record in await journal.read_page(stream_of(digest), limit=1) if digest else ():
        try:
            event = journal.registry.decode(record)
        except UnknownEvent:
            return Document(digest, "unread")
        except JournalCorrupt:
            return Document(digest, "differs")
        if isinstance(event, DefinitionRecorded):
            return document_of(digest, event)
    return Document(digest, "missing")


def _mapping(value: Value | Mapping[str, Value]) -> Mapping[str, Value]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""
