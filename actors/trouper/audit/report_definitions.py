"""What agents were told, in a report: their definition documents, held against the digests that runs have pinned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trouper.audit.definitions import Document, Standing
from trouper.audit.markup import Markup, el
from trouper.audit.report_parts import Row, anchor, facts, laid_out, row, table
from trouper.narration.plain import plain
from trouper_journal import Value

_STANDING: Final[Mapping[Standing, tuple[str, str]]] = {
    "matches": ("The document has the digest that its runs have pinned.", "ok"),
    "differs": ("The document does NOT have the digest that its runs have pinned: it is another one.", "bad"),
    "missing": ("Its document is not in the journal.", "bad"),
    "erased": ("[erased]", "dim"),
    "unread": ("Its document was written by a newer release, or stands in an archive.", "doubt"),
}


def definition(digest: str, document: Document) -> Iterator[Markup]:
    """A definition: how it stands, what the model was told, and which tools there were."""
    yield el("h3", f"Definition of {document.agent or 'an agent'} ", id=anchor(digest))
    text, style = _STANDING[document.standing]
    found = document.definition
    model = {} if found is None else document.model("")
    yield facts(
        [
            ("Digest", el("span", digest, class_="mono")),
            ("Checked", el("span", text, class_=style)),
            ("Model", " / ".join(dict.fromkeys(value for value in model.values() if isinstance(value, str)))),
        ]
    )
    if found is None:
        return
    if document.instructions:
        said = el("div", document.instructions, class_="text")
        yield el("div", el("div", "Instructions", class_="kicker"), said, class_="panel")
    tools = _part(found.contract, "tools")
    if tools:
        described = _part(found.prose, "tools")
        rows = [_tool_row(name, _part(tools, name), _part(described, name)) for name in tools]
        yield table(("Tool", "What for", "Effect", "Approval"), rows)
    yield el("div", "The whole document", class_="kicker")
    yield el("pre", laid_out(plain(found.document)), class_="document")


def _tool_row(name: str, tool: Mapping[str, Value], described: Mapping[str, Value]) -> Row:
    return row(
        el("code", name),
        _text(described.get("description")),
        _text(tool.get("effect")).replace("_", " "),
        _text(tool.get("gate")),
    )


def _part(document: Mapping[str, Value], key: str) -> Mapping[str, Value]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _text(value: Value) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)
