"""What happens to a run: one class for each fact, in the past tense.

*Driver* events are appended by the run's agent alone, under the journal's fence. The others may come from anyone,
from any process. Names and schema numbers are what the journal stores: a class may be renamed, its event name may not.
A default is part of the schema, because fields equal to their defaults are not stored.

Actions are named within their run by ``<model index>.<call index>``, such as ``0.1``; with the run's id in front
that is the action id everywhere else, and the effect key.
"""

from __future__ import annotations

from trouper.core.action_events import ActionInterrupted as ActionInterrupted
from trouper.core.action_events import ActionPlanned as ActionPlanned
from trouper.core.action_events import ActionQueried as ActionQueried
from trouper.core.action_events import ActionReceipted as ActionReceipted
from trouper.core.action_events import ActionReplanned as ActionReplanned
from trouper.core.action_events import ActionResolved as ActionResolved
from trouper.core.action_events import ActionReturnedLate as ActionReturnedLate
from trouper.core.action_events import ActionStarted as ActionStarted
from trouper.core.action_events import ActionUnresolved as ActionUnresolved
from trouper.core.action_events import ApprovalDecided as ApprovalDecided
from trouper.core.action_events import ApprovalExpired as ApprovalExpired
from trouper.core.action_events import ApprovalRequested as ApprovalRequested
from trouper.core.approvals import Asking as Asking
from trouper.core.approvals import Grounds as Grounds
from trouper.core.archive_events import ArchiveMade as ArchiveMade
from trouper.core.base import Base as Base
from trouper.core.base import HistoryRef as HistoryRef
from trouper.core.budget_events import BudgetRaised as BudgetRaised
from trouper.core.budget_events import BudgetRefused as BudgetRefused
from trouper.core.budget_events import BudgetWarned as BudgetWarned
from trouper.core.child_events import ChildCancelRequested as ChildCancelRequested
from trouper.core.child_events import ChildFinished as ChildFinished
from trouper.core.child_events import ChildStarted as ChildStarted
from trouper.core.control_events import ChildPauseRequested as ChildPauseRequested
from trouper.core.control_events import DeadlineExtended as DeadlineExtended
from trouper.core.control_events import DeadlinePassed as DeadlinePassed
from trouper.core.control_events import PauseRequested as PauseRequested
from trouper.core.control_events import RunHeard as RunHeard
from trouper.core.control_events import RunSignalled as RunSignalled
from trouper.core.control_events import TimerFired as TimerFired
from trouper.core.control_events import TimerSet as TimerSet
from trouper.core.erasure_events import ERASURE_EVENTS as ERASURE_EVENTS
from trouper.core.erasure_events import ErasureCarriedOut as ErasureCarriedOut
from trouper.core.erasure_events import ErasureOrdered as ErasureOrdered
from trouper.core.fork import Fork as Fork
from trouper.core.hook_events import HookApplied as HookApplied
from trouper.core.hook_events import HookDone as HookDone
from trouper.core.model_events import ModelFailed as ModelFailed
from trouper.core.model_events import ModelLost as ModelLost
from trouper.core.model_events import ModelRequested as ModelRequested
from trouper.core.model_events import ModelResponded as ModelResponded
from trouper.core.output_events import OutputAccepted as OutputAccepted
from trouper.core.output_events import OutputRejected as OutputRejected
from trouper.core.restore_events import RESTORE_EVENTS as RESTORE_EVENTS
from trouper.core.restore_events import JournalRestored as JournalRestored
from trouper.core.restore_events import RestoreCarriedOut as RestoreCarriedOut
from trouper.core.rule_events import RuleAdded as RuleAdded
from trouper.core.rule_events import RuleRevoked as RuleRevoked
from trouper.core.rule_events import RuleUsed as RuleUsed
from trouper.core.run_events import CancelRequested as CancelRequested
from trouper.core.run_events import DefinitionAdopted as DefinitionAdopted
from trouper.core.run_events import DefinitionRecorded as DefinitionRecorded
from trouper.core.run_events import DriverStarted as DriverStarted
from trouper.core.run_events import ResumeRequested as ResumeRequested
from trouper.core.run_events import RunCancelled as RunCancelled
from trouper.core.run_events import RunFailed as RunFailed
from trouper.core.run_events import RunStarted as RunStarted
from trouper.core.run_events import RunSubmitted as RunSubmitted
from trouper.core.run_events import RunSucceeded as RunSucceeded
from trouper.core.run_events import RunWaiting as RunWaiting
from trouper.core.session import SessionTurn as SessionTurn
from trouper.core.session import Standing as Standing
from trouper.core.session_events import SESSION_EVENTS as SESSION_EVENTS
from trouper.core.session_events import ApprovalWithdrawn as ApprovalWithdrawn
from trouper.core.session_events import ContextCompacted as ContextCompacted
from trouper.core.session_events import SessionCompacted as SessionCompacted
from trouper.core.session_events import SessionOpened as SessionOpened
from trouper.core.session_events import SummaryFailed as SummaryFailed
from trouper.core.session_events import SummaryRequested as SummaryRequested
from trouper.core.session_events import TurnEnded as TurnEnded
from trouper.core.session_events import TurnGiven as TurnGiven
from trouper.core.session_events import TurnQueued as TurnQueued
from trouper.core.session_events import TurnReopened as TurnReopened
from trouper.core.session_events import TurnWithdrawn as TurnWithdrawn
from trouper.core.state_events import StateChanged as StateChanged
from trouper.core.state_events import StateOp as StateOp
from trouper.core.state_events import StateRefused as StateRefused
from trouper.core.terms import NO_TERMS as NO_TERMS
from trouper.core.terms import AskedCall as AskedCall
from trouper.core.terms import FailureKind as FailureKind
from trouper.core.terms import Limits as Limits
from trouper.core.terms import Principal as Principal
from trouper.core.terms import Requirement as Requirement
from trouper.core.terms import Terms as Terms
from trouper.core.tool_events import ActionAuthorized as ActionAuthorized
from trouper.core.tool_events import ActionDenied as ActionDenied
from trouper.core.tool_events import ToolsBound as ToolsBound
from trouper_journal import EventRegistry

REGISTRY = EventRegistry(
    [
        DefinitionRecorded,
        DriverStarted,
        RunSubmitted,
        RunStarted,
        DefinitionAdopted,
        ModelRequested,
        ModelResponded,
        ModelFailed,
        ModelLost,
        ActionPlanned,
        ActionReplanned,
        ActionAuthorized,
        ActionDenied,
        ToolsBound,
        ApprovalRequested,
        ApprovalDecided,
        ApprovalExpired,
        ActionStarted,
        ActionReceipted,
        ActionInterrupted,
        ActionQueried,
        ActionUnresolved,
        ActionResolved,
        ActionReturnedLate,
        ChildStarted,
        ChildCancelRequested,
        ChildPauseRequested,
        ChildFinished,
        OutputAccepted,
        OutputRejected,
        CancelRequested,
        BudgetRefused,
        BudgetWarned,
        BudgetRaised,
        TimerSet,
        TimerFired,
        DeadlinePassed,
        DeadlineExtended,
        PauseRequested,
        ResumeRequested,
        HookApplied,
        StateChanged,
        StateRefused,
        RunSignalled,
        RunHeard,
        RuleAdded,
        RuleRevoked,
        RuleUsed,
        ArchiveMade,
        RunWaiting,
        RunSucceeded,
        RunFailed,
        RunCancelled,
        *SESSION_EVENTS,
        *ERASURE_EVENTS,
        *RESTORE_EVENTS,
    ],
    check=False,
)
"""All events of the runtime, for opening a journal with."""
