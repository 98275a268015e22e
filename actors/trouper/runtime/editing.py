"""Checks the arguments that an approver gives in place of the model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from attrs import field, frozen

from trouper.core.commands import find_action
from trouper.core.definition import stream_of, tool_schema
from trouper.core.events import DefinitionRecorded
from trouper.core.state import RunState
from trouper.errors import ApprovalError, ArgumentsError, EditError
from trouper_journal import Journal, Plain, Value

Validate: TypeAlias = Callable[[str, str, Mapping[str, Value]], None]
"""Takes agent, tool and arguments, and raises ArgumentsError where the tool itself would refuse them."""


def anything(agent: str, tool: str, arguments: Mapping[str, Value]) -> None:  # noqa: ARG001
    """Where the tools are not at hand: any arguments that the schema allows."""
    return


@frozen(slots=False, repr=False, eq=False)
class Editing(Plain):
    """Holds edits against what the journal says of the tools, and against the tools where they are at hand.

    Attributes:
        journal: The journal, which has the schemas.
        validate: What the tools themselves say.
    """

    journal: Journal
    validate: Validate
    _documents: dict[str, Mapping[str, Value]] = field(factory=dict, init=False, repr=False)

    async def check(self, state: RunState, name: str, arguments: Mapping[str, Value]) -> None:
        """Check an edit of a call.

        Raises:
            UnknownAction: No such call.
            ApprovalError: The tool's schema is not in the journal.
            EditError: The arguments do not fit.
        """
        import jsonschema

        action = find_action(state, name)
        schema = await self._schema(state.definition, action.tool)
        if schema is None:
            raise ApprovalError(f"action {state.run}/{name}: the schema of {action.tool} is not in the journal")
        validator = jsonschema.Draft202012Validator(dict(schema))
        for error in validator.iter_errors(dict(arguments)):
            place = ".".join(str(part) for part in error.absolute_path) or "arguments"
            raise EditError(f"action {state.run}/{name}: the edit does not fit: {place}: {error.message}")
        try:
            self.validate(state.agent, action.tool, arguments)
        except ArgumentsError as error:
            raise EditError(f"action {state.run}/{name}: the edit does not fit. {error}") from error

    async def _schema(self, definition: str, tool: str) -> Mapping[str, Value] | None:
        if definition not in self._documents:
            for record in await self.journal.read_page(stream_of(definition), after=0, limit=1):
                recorded = self.journal.registry.decode(record)
                if isinstance(recorded, DefinitionRecorded) and isinstance(recorded.document, dict):
                    self._documents[definition] = recorded.document
        return tool_schema(self._documents.get(definition, {}), tool)
