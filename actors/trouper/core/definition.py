"""Definition documents: what an agent was when it acted, as a plain value with two digests.

``contract`` is what others rely on (names, schemas, effects, gates, limits); ``prose`` is how the model is told
(instructions, descriptions, model and settings). Both are digested in canonical form, so that the same definition has
the same digests in every process and on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from trouper_journal import Plain, Value, plain_digest


@frozen(slots=False, repr=False, eq=False)
class Definition(Plain):
    """An agent's definition document.

    Attributes:
        contract: What others rely on.
        prose: How the model is told.
    """

    contract: Mapping[str, Value]
    prose: Mapping[str, Value]
    digest: str
    contract_digest: str
    prose_digest: str

    @property
    def document(self) -> dict[str, Value]:
        """The document as journaled."""
        return {"contract": dict(self.contract), "prose": dict(self.prose)}


def define(contract: Mapping[str, Value], prose: Mapping[str, Value]) -> Definition:
    """Digest a definition."""
    contract_digest = plain_digest(dict(contract)).hex()
    prose_digest = plain_digest(dict(prose)).hex()
    whole = plain_digest([contract_digest, prose_digest]).hex()
    return Definition(contract, prose, whole, contract_digest, prose_digest)


def stream_of(digest: str) -> str:
    """The stream that holds the document of that digest."""
    return f"definition/{digest}"


def differences(old: Value, new: Value, path: str = "") -> list[str]:
    """What differs between two documents, one line for each place, for people to read."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines: list[str] = []
        for key in sorted(old.keys() | new.keys()):
            where = f"{path}.{key}" if path else key
            if key not in old:
                lines.append(f"{where} is new")
            elif key not in new:
                lines.append(f"{where} is gone")
            else:
                lines += differences(old[key], new[key], where)
        return lines
    return [] if old == new else [f"{path} changed"]


def tool_schema(document: Mapping[str, Value], tool: str) -> Mapping[str, Value] | None:
    """The JSON Schema of a tool's arguments in a document; None where the document has no such tool."""
    contract = document.get("contract")
    tools = contract.get("tools") if isinstance(contract, dict) else None
    found = tools.get(tool) if isinstance(tools, dict) else None
    schema = found.get("parameters") if isinstance(found, dict) else None
    return schema if isinstance(schema, dict) else None
