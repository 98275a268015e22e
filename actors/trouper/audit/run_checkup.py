"""What the runs of a journal wait for, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen

from trouper.audit.findings import Finding, Findings, Severity
from trouper.core.state import Phase, RunState
from trouper.core.status import (
    AWAITING,
    DRIFTED,
    ENDED_IN_DOUBT,
    IN_DOUBT,
    MARKS,
    OVER_BUDGET,
    PAUSED,
)
from trouper.errors import JournalCorrupt, UnknownEvent
from trouper.narration.text import age
from trouper.runtime.histories import run_state
from trouper_journal import Damaged, Journal, Plain, StreamHead

_SECOND: Final = 1_000_000_000
_ENDED: Final = frozenset({"succeeded", "failed", "cancelled"})


@frozen(slots=False, repr=False, eq=False, kw_only=True)
class Patience(Plain):
    """How long is long.

    Attributes:
        quiet: Seconds without a record after which a run that has something to do is stuck.
        waiting: Seconds for which a run may wait for a person.
    """

    quiet: float = 900.0
    waiting: float = 86_400.0


@define
class RunCheckup:
    """Looks at every run that is not over, from the index, and at those that are conspicuous, from their records."""

    journal: Journal
    now: int
    driven: bool | None
    findings: Findings
    patience: Patience = field(factory=Patience)
    runs: int = 0
    idle: int = 0

    async def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Look at all of them."""
        async for head in self.journal.streams(prefix="run/"):
            self.runs += 1
            if head.label not in _ENDED:
                await self._see(head)
            if progress is not None:
                progress(self.runs, self.runs)
        if self.idle:
            self.findings.add(
                Finding(
                    "runs",
                    "warn",
                    f"{self.idle} run{'s' if self.idle != 1 else ''} could go on, and no process drives the journal",
                    "start the daemon, or drive one with `trouper run AGENTS --resume RUN`",
                )
            )

    async def _see(self, head: StreamHead) -> None:
        if type(head.label) not in (str, type(None)) or type(head.wake_at) not in (int, type(None)):
            return  # which is a finding of the verification
        quiet = await self._quiet(head)
        label, run = head.label or "?", head.stream.removeprefix("run/")
        if label == DRIFTED:
            self._add(
                head, "drift", "warn", f"run {run} is held: its agent is not what it was when the run began",
                "look what changed (`trouper show`); run the agent that it began with, or adopt the change "
                "(`trouper run --resume RUN --adopt`)",
            )  # fmt: skip
        elif label == IN_DOUBT or label.endswith(ENDED_IN_DOUBT):
            self._add(
                head, "doubts", "warn", f"a call of run {run} may or may not have taken effect, for {age(quiet)} now",
                "find out where it would have had its effect, and settle it: `trouper approvals` shows how",
            )  # fmt: skip
        elif label in {AWAITING, OVER_BUDGET, PAUSED}:
            if quiet > self.patience.waiting:
                self._add(head, *_WAITS[label], f"run {run} {_WORDS[label]} for {age(quiet)}", _ADVICE[label])
        elif head.wake_at is not None and (head.wake_at in MARKS or head.wake_at <= self.now):
            if self.driven is False:
                self.idle += 1
            elif quiet > self.patience.quiet:
                await self._stuck(head, run, quiet)

    async def _stuck(self, head: StreamHead, run: str, quiet: float) -> None:
        try:
            out = _out(await run_state(self.journal, run))
        except (UnknownEvent, JournalCorrupt) as error:
            out = f"it cannot be folded: {error}"
        message = f"run {run} is {head.label}, and nothing was recorded for {age(quiet)}: {out}"
        self._add(
            head, "runs", "bad" if self.driven else "warn", message,
            "look at the process that drives the journal; a call that hangs ends by a time limit on its tool, and "
            "a restart goes on where the journal ends",
        )  # fmt: skip

    async def _quiet(self, head: StreamHead) -> float:
        """Seconds since the run's last record."""
        try:
            page = await self.journal.read_page(head.stream, after=head.version - 1, limit=1)
        except JournalCorrupt:
            page = []
        moment = page[0].recorded_at if page and not isinstance(page[0], Damaged) else self.now
        return (self.now - moment) / _SECOND

    def _add(self, head: StreamHead, check: str, severity: Severity, message: str, advice: str) -> None:
        self.findings.add(Finding(check, severity, message, advice, head.stream, head.position))


_WAITS: Final[dict[str, tuple[str, Severity]]] = {
    AWAITING: ("approvals", "warn"),
    OVER_BUDGET: ("runs", "warn"),
    PAUSED: ("runs", "note"),
}
_WORDS: Final = {
    AWAITING: "has waited for an approval",
    OVER_BUDGET: "has waited at a limit",
    PAUSED: "has been paused",
}
_ADVICE: Final = {
    AWAITING: "decide (`trouper approvals` shows how), or end it with `trouper cancel`",
    OVER_BUDGET: "let it go on with `trouper raise-limit`, or end it with `trouper cancel`",
    PAUSED: "let it go on with `trouper resume`, or end it with `trouper cancel`",
}


def _out(state: RunState) -> str:
    """What a run is at."""
    if state.model is not None and state.model.phase == "requested":
        return "it waits for its model"
    tools = [action.tool for action in state.batch if action.phase is Phase.STARTED]
    return f"it waits for {', '.join(tools)}" if tools else "its next step was not taken"
