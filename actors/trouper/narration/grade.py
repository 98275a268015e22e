"""What a verification lets people say of a journal, and no more."""

from __future__ import annotations

from trouper.narration.text import count
from trouper_journal import Verification


def grade_text(found: Verification) -> str:
    """The grade in a few words, with how many records it is about: ``matches checkpoint of 5 records``."""
    if not found.signed:
        return found.grade
    signed = f"checkpoint of {count(found.signed, 'record')}"
    return f"matches {signed}" if found.grade == "matches checkpoint" else f"{found.grade}, {signed}"


def grade_meaning(found: Verification) -> str:
    """What the grade means, in a sentence."""
    if found.grade == "inconsistent":
        return "the file is damaged, or somebody has changed it"
    if not found.signed:
        return "records, indexes and Merkle tree agree. Only a root kept elsewhere can show a file made anew"
    behind = found.records - found.signed
    which = f"the first {count(found.signed, 'record')} are" if behind > 0 else "the records are"
    by = ", and witnesses have seen no others" if found.grade == "witnessed" else ""
    if behind <= 0:
        return f"{which} those that were signed{by}"
    return f"{which} those that were signed{by}; what follows agrees with itself, and nobody has signed it: {behind:,}"
