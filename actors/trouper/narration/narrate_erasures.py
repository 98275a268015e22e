"""Sentences about erasures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trouper.core.events import ErasureCarriedOut, ErasureOrdered
from trouper.narration.line import RUNTIME, Line, deed, reason_text
from trouper.narration.text import clean, count


def _ordered(event: ErasureOrdered, limit: int | None) -> Line:
    left = f", {count(event.plain, 'record')} in plain stay readable" if event.plain else ""
    text = f"wants {_subject(event.domain)} erased ({count(event.runs, 'run')}, {count(event.records, 'record')}{left})"
    return deed(event.by, f"{text}{reason_text(event.reason, limit)}")


def _carried_out(event: ErasureCarriedOut, limit: int | None) -> Line:  # noqa: ARG001 -- as all sentences
    keys = " and ".join(clean(name) for name in event.keys) or "none"
    return Line(RUNTIME, f"{_subject(event.domain)} is erased: its keys are destroyed ({keys})")


def _subject(domain: str) -> str:
    return clean(domain.replace("/", " ", 1))


ERASURE_SENTENCES: Mapping[type, Callable[..., Line]] = {ErasureOrdered: _ordered, ErasureCarriedOut: _carried_out}
