"""All requests for approval of a journal, one row each: what is open, how long people took, how they decided.

It counts the votes that the rules count. Who voted, and why, is content, and is not copied here: it would outlive
erasure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from attrs import frozen

from trouper.core import events as ev
from trouper.core.effect_of import without_effect
from trouper.core.evolve import evolve
from trouper.errors import UnknownEvent, UnknownRun
from trouper.runtime.histories import run_state
from trouper_journal import Journal, Plain, Record
from trouper_journal.projections import Entry, Projected, Tables

ApprovalStatus: TypeAlias = Literal["open", "approved", "denied", "expired", "withdrawn", "moot"]


@frozen(slots=False, repr=False, eq=False)
class ApprovalRow(Plain):
    """A request for approval.

    Attributes:
        action: The call's full id.
        request: Number of the request for this call, from 1.
        run: The run.
        agent: Its agent.
        tool: The tool.
        quorum: How many must approve.
        status: ``open``; how it was decided; or why nobody needs to decide any more: it ``expired``, whoever talks
            to the agent has ``withdrawn`` it, or its run ended (``moot``).
        approvals: How many have approved the call as it now stands.
        requested_at: When people were asked (ns UTC).
        expires_at: When the request lapses; None for never.
        settled_at: When it was no longer open; None while it is.
    """

    action: str
    request: int
    run: str
    agent: str
    tool: str
    quorum: int
    status: ApprovalStatus
    approvals: int
    requested_at: int
    expires_at: int | None
    settled_at: int | None


_TABLE: Final = """
CREATE TABLE projection_approvals (
    action TEXT,
    request INTEGER,
    run TEXT,
    agent TEXT,
    tool TEXT,
    quorum INTEGER,
    status TEXT,
    approvals INTEGER,
    requested_at INTEGER,
    expires_at INTEGER,
    settled_at INTEGER,
    PRIMARY KEY (action, request)
)
"""
_VOTES_TABLE: Final = """
CREATE TABLE projection_approvals_votes (
    action TEXT,
    request INTEGER,
    voter BLOB,
    digest BLOB,
    PRIMARY KEY (action, request, voter)
) WITHOUT ROWID
"""


class ApprovalsProjection:
    """Keeps a row for each request."""

    name = "approvals"
    version = 1
    schema = (
        _TABLE,
        "CREATE INDEX projection_approvals_status ON projection_approvals (status, requested_at)",
        "CREATE INDEX projection_approvals_run ON projection_approvals (run)",
        _VOTES_TABLE,
        "CREATE TABLE projection_approvals_calls (action TEXT PRIMARY KEY, tool TEXT) WITHOUT ROWID",
        "CREATE TABLE projection_approvals_agents (run TEXT PRIMARY KEY, agent TEXT) WITHOUT ROWID",
    )
    types = frozenset(
        {
            "run.submitted", "action.planned", "action.replanned", "approval.requested", "approval.decided",
            "approval.expired", "approval.withdrawn", "run.succeeded", "run.failed", "run.cancelled",
        }
    )  # fmt: skip
    every = False

    async def counts(self, journal: Journal, record: Record, event: object) -> bool:
        """Whether a decision changed anything of the call: anyone may append one, past the rules, too."""
        if not isinstance(event, ev.ApprovalDecided | ev.ApprovalWithdrawn):
            return True
        try:
            before = await run_state(journal, record.stream.removeprefix("run/"), record.version - 1)
        except (UnknownEvent, UnknownRun):
            return True  # as far as anybody can tell here
        return not without_effect(before, evolve(before, event), event)

    def apply(self, tables: Tables, entries: Sequence[Entry]) -> None:
        """Begin rows, and settle them."""
        for entry in entries:
            run = entry.record.stream.removeprefix("run/")
            match entry.event:
                case ev.RunSubmitted(agent=agent):
                    tables.execute("INSERT OR REPLACE INTO projection_approvals_agents VALUES (?, ?)", (run, agent))
                case ev.ActionPlanned(action=action, tool=tool, gate="person"):
                    full = f"{run}/{action}"
                    tables.execute("INSERT OR REPLACE INTO projection_approvals_calls VALUES (?, ?)", (full, tool))
                case ev.ApprovalRequested():
                    _ask(tables, run, entry.record, entry.event)
                case ev.ApprovalDecided():
                    _vote(tables, run, entry.record, entry.event)
                case ev.ApprovalExpired(action=action, request=request):
                    _settle(tables, f"{run}/{action}", request, "expired", entry.record)
                case ev.ApprovalWithdrawn(action=action, request=request):
                    _settle(tables, f"{run}/{action}", request, "withdrawn", entry.record)
                case ev.RunSucceeded() | ev.RunFailed() | ev.RunCancelled():
                    tables.execute(
                        "UPDATE projection_approvals SET status = 'moot', settled_at = ? "
                        "WHERE run = ? AND status = 'open'",
                        (entry.record.recorded_at, run),
                    )


def _ask(tables: Tables, run: str, record: Record, event: ev.ApprovalRequested) -> None:
    action = f"{run}/{event.action}"
    tables.execute(
        "INSERT OR REPLACE INTO projection_approvals SELECT ?, ?, ?, "
        "ifnull((SELECT agent FROM projection_approvals_agents WHERE run = ?), '?'), "
        "ifnull((SELECT tool FROM projection_approvals_calls WHERE action = ?), '?'), ?, 'open', 0, ?, ?, NULL",
        (action, event.request, run, run, action, event.quorum, record.recorded_at, event.expires_at),
    )


def _vote(tables: Tables, run: str, record: Record, event: ev.ApprovalDecided) -> None:
    action = f"{run}/{event.action}"
    if event.decision == "deny":
        _settle(tables, action, event.request, "denied", record)
        return
    tables.execute(
        "INSERT OR REPLACE INTO projection_approvals_votes VALUES (?, ?, ?, ?)",
        (action, event.request, event.voter, event.digest),
    )
    # Votes are for the call as it stood: an edit makes it another one, and those before it do not count any more.
    ((votes,),) = tables.execute(
        "SELECT count(*) FROM projection_approvals_votes WHERE action = ? AND request = ? AND digest = ?",
        (action, event.request, event.digest),
    )
    tables.execute(
        "UPDATE projection_approvals SET approvals = ? WHERE action = ? AND request = ? AND status = 'open'",
        (votes, action, event.request),
    )
    rows = tables.execute(
        "SELECT 1 FROM projection_approvals WHERE action = ? AND request = ? AND approvals >= quorum",
        (action, event.request),
    )
    if rows:
        _settle(tables, action, event.request, "approved", record)


def _settle(tables: Tables, action: str, request: int, status: ApprovalStatus, record: Record) -> None:
    tables.execute(
        "UPDATE projection_approvals SET status = ?, settled_at = ? "
        "WHERE action = ? AND request = ? AND status = 'open'",
        (status, record.recorded_at, action, request),
    )


async def list_approvals(
    projected: Projected, *, status: ApprovalStatus | None = None, limit: int = 100
) -> list[ApprovalRow]:
    """Requests, the oldest first.

    Args:
        projected: An `ApprovalsProjection`, opened by `open_projection`.
        status: Only those that stand so.
        limit: How many at most.
    """
    rows = await projected.query(
        "SELECT * FROM projection_approvals WHERE ? IS NULL OR status = ? ORDER BY requested_at, action, request "
        "LIMIT ?",
        (status, status, limit),
    )
    return [ApprovalRow(*row) for row in rows]  # type: ignore[arg-type]
