"""Projections of Trouper's journals: runs, approvals and spending, in tables that are kept up with the records."""

from trouper.projections.approvals import ApprovalRow as ApprovalRow
from trouper.projections.approvals import ApprovalsProjection as ApprovalsProjection
from trouper.projections.approvals import list_approvals as list_approvals
from trouper.projections.runs import RunRow as RunRow
from trouper.projections.runs import RunsProjection as RunsProjection
from trouper.projections.runs import list_runs as list_runs
from trouper.projections.spend import Spending as Spending
from trouper.projections.spend import SpendProjection as SpendProjection
from trouper.projections.spend import spending as spending
from trouper_journal.projections import Projected as Projected
from trouper_journal.projections import open_projection as open_projection
