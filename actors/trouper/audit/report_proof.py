"""What a report can say of how far its records are proven, and no more."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from trouper.audit.chapters import Chapters
from trouper.audit.markup import Child, Markup, el
from trouper.audit.report_parts import Row, across, facts, row, table
from trouper.audit.story import Told
from trouper.narration.grade import grade_meaning, grade_text
from trouper.narration.text import count
from trouper_journal import Verification


@frozen
class Proof:
    """How far it is proven: in a sentence, and in which colour that is said. Green is for what somebody has signed."""

    text: str
    style: str


def proof_of(chapters: Chapters, found: Verification | None) -> Proof:
    """How far what a report tells is proven."""
    records = chapters.records
    if chapters.damaged:
        return Proof(f"{chapters.damaged:,} of {count(records, 'record')} here are damaged.", "bad")
    each = f"The {count(records, 'record')} told of here have their digests"
    if found is None:
        return Proof(f"{each}. The whole journal was not verified for this report.", "doubt")
    if not found.ok:
        return Proof(f"{each}, but the journal is inconsistent: {count(found.found, 'problem')}.", "bad")
    if chapters.last > found.records:
        return Proof(f"{each}, but some of them came after the journal was verified.", "doubt")
    if not found.signed:
        return Proof(f"{each}, and the journal agrees with itself. No signature was looked at.", "doubt")
    if chapters.last > found.signed:
        return Proof(f"{each}; the journal {grade_text(found)}, but some of them came after that.", "doubt")
    witnessed = ", which witnesses have seen, too" if found.grade == "witnessed" else ""
    return Proof(f"{each}, and are among the {count(found.signed, 'record')} that were signed{witnessed}.", "ok")


def proof_section(chapters: Chapters, found: Verification | None, journal_id: bytes) -> Iterator[Markup]:
    """The proof in full, and the leaves by which the records can be found in the journal or in a bundle."""
    proof = proof_of(chapters, found)
    yield el("h2", "Proof", id="proof")
    yield el("p", proof.text, class_=proof.style)
    rows: list[tuple[str, Child]] = [("Journal", el("span", journal_id.hex(), class_="mono"))]
    if found is not None:
        rows += [
            ("Grade", f"{grade_text(found)}: {grade_meaning(found)}."),
            ("Records in it", f"{found.records:,}"),
            ("Merkle root", el("span", found.root, class_="mono")),
        ]
    yield facts(rows)
    if found is not None and found.problems:
        items = [el("li", _where(each.position, each.message)) for each in found.problems[:20]]
        more = found.found - len(items)
        yield el("ul", items, el("li", f"and {more:,} more") if more > 0 else None)
    yield el(
        "p",
        "This page is for reading: whoever has it can edit it. What proves is the journal, or an evidence bundle made "
        "from it. The leaves below are what those must give for the same positions (RFC 6962 leaf hashes; the page on "
        "the journal's format tells how they are computed).",
        class_="soft small",
    )
    leaves: list[Row] = []
    for run in chapters.runs:
        leaves.append(across(f"run/{run.run}"))
        leaves += map(_leaf_row, run.told)
    yield table(("Position", "Version", "Event", "Leaf"), leaves, class_="leaves")


def _where(position: int | None, message: str) -> str:
    return message if position is None else f"position {position:,}: {message}"


def _leaf_row(told: Told) -> Row:
    return row(str(told.position), str(told.version), told.type, el("td", told.leaf.hex(), class_="mono"))
