"""Which runs a list shows, and in which order."""

from __future__ import annotations

import sys
from collections import Counter, deque

from attrs import field, frozen

from trouper.core.family import root_of
from trouper_journal import Journal, StreamHead


@frozen
class Chosen:
    """The runs to show.

    Attributes:
        heads: Their heads, in order.
        labels: How many runs of the journal have each label.
        older: How many older ones were left out.
        below: How many runs of sub-agents were left out.
        nested: Whether runs of sub-agents stand under those that called them.
    """

    heads: list[StreamHead]
    labels: Counter[str] = field(factory=Counter)
    older: int = 0
    below: int = 0
    nested: bool = False


async def choose(journal: Journal, label: str | None, number: int, *, everything: bool) -> Chosen:
    """Choose the runs to show.

    Args:
        journal: The journal.
        label: Only those with this label, runs of sub-agents among them; None for all roots.
        number: How many, the newest; 0 for all. With ``everything`` so many trees.
        everything: Whether runs of sub-agents are shown under their roots.
    """
    labels: Counter[str] = Counter()
    heads: deque[StreamHead] = deque(maxlen=min(number, sys.maxsize) or None)
    below: dict[str, list[StreamHead]] = {}
    matching = hidden = 0
    async for head in journal.streams(prefix="run/"):
        labels[head.label or "?"] += 1
        run = head.stream.removeprefix("run/")
        if label is not None and head.label != label:
            continue
        if label is None and "~" in run:
            hidden += 1
            if everything:
                below.setdefault(root_of(run), []).append(head)
            continue
        matching += 1
        heads.append(head)
    older = matching - len(heads)
    if not everything:
        return Chosen(list(heads), labels, older, hidden)
    nested: list[StreamHead] = []
    for head in heads:
        nested.append(head)
        nested += sorted(below.get(head.stream.removeprefix("run/"), ()), key=lambda each: place(each.stream))
    return Chosen(nested, labels, older, nested=label is None)


def place(run: str) -> tuple[tuple[int, ...], ...]:
    """Where a run stands in its tree, for sorting: behind the run that called it, in the order of the calls."""
    calls = run.split("~")[1:]
    return tuple(tuple(int(part) for part in call.split(".") if part.isdecimal()) for call in calls)
