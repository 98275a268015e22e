"""What an examination finds."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal, TypeAlias

from attrs import define, field, frozen

from trouper_journal import Plain

Severity: TypeAlias = Literal["bad", "warn", "note"]

MAX_DETAILS: Final = 20
"""Findings of one check that are described one by one; more are only counted."""


@frozen(slots=False, repr=False, eq=False)
class Finding(Plain):
    """One thing that somebody should know.

    Attributes:
        check: Which check found it.
        severity: ``bad``: something is wrong; ``warn``: somebody should look; ``note``: nobody has to.
        message: What was found; never quotes a secret.
        advice: What to do.
        stream: The stream concerned, if it is about one.
        position: The record concerned, if it is about one.
    """

    check: str
    severity: Severity
    message: str
    advice: str
    stream: str | None = None
    position: int | None = None


@define
class Findings:
    """Collects findings, in bounded memory."""

    listed: list[Finding] = field(factory=list)
    counts: Counter[tuple[str, Severity]] = field(factory=Counter)

    def add(self, finding: Finding) -> None:
        """Note a finding; past some number of a check it is only counted."""
        self.counts[finding.check, finding.severity] += 1
        if self.counts[finding.check, finding.severity] <= MAX_DETAILS:
            self.listed.append(finding)

    def unlisted(self) -> list[tuple[str, Severity, int]]:
        """Of which checks how many were only counted."""
        return [
            (check, severity, number - MAX_DETAILS)
            for (check, severity), number in self.counts.items()
            if number > MAX_DETAILS
        ]
