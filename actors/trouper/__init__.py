"""A durable runtime for LLM agents on Trio: actors, an immutable journal, exact recovery.

`Agent`, `tool` and `Runtime` are what a program needs; see docs/ for the rest. The actor kit alone is `trouper.kit`,
the journal alone `trouper_journal`, the test kit `trouper.testing`.
"""

from trouper._clock import Clock as Clock
from trouper._clock import SystemClock as SystemClock
from trouper._ids import Entropy as Entropy
from trouper._ids import SystemEntropy as SystemEntropy
from trouper.agent import Agent as Agent
from trouper.core.commands import Judgement as Judgement
from trouper.core.conversation import AI as AI
from trouper.core.conversation import Human as Human
from trouper.core.conversation import Message as Message
from trouper.core.conversation import Removal as Removal
from trouper.core.conversation import System as System
from trouper.core.conversation import ToolCall as ToolCall
from trouper.core.conversation import ToolMessage as ToolMessage
from trouper.core.conversation import ToolSpec as ToolSpec
from trouper.core.conversation import add_messages as add_messages
from trouper.core.conversation import pretty as pretty
from trouper.core.effects import Effect as Effect
from trouper.core.events import REGISTRY as REGISTRY
from trouper.core.events import Limits as Limits
from trouper.core.events import Principal as Principal
from trouper.core.exchange import ModelConfig as ModelConfig
from trouper.core.exchange import ModelReply as ModelReply
from trouper.core.state import RunState as RunState
from trouper.errors import ApprovalConflict as ApprovalConflict
from trouper.errors import ApprovalError as ApprovalError
from trouper.errors import DefinitionDrift as DefinitionDrift
from trouper.errors import DefinitionError as DefinitionError
from trouper.errors import EditError as EditError
from trouper.errors import IdempotencyConflict as IdempotencyConflict
from trouper.errors import JournalError as JournalError
from trouper.errors import JournalInUse as JournalInUse
from trouper.errors import ModelError as ModelError
from trouper.errors import OutputTruncated as OutputTruncated
from trouper.errors import ResolveError as ResolveError
from trouper.errors import RunCancelled as RunCancelled
from trouper.errors import RunError as RunError
from trouper.errors import RunFailed as RunFailed
from trouper.errors import RuntimeStopped as RuntimeStopped
from trouper.errors import SchemaError as SchemaError
from trouper.errors import StepLimitExceeded as StepLimitExceeded
from trouper.errors import ToolError as ToolError
from trouper.errors import TransientError as TransientError
from trouper.errors import TrouperError as TrouperError
from trouper.errors import UnknownAction as UnknownAction
from trouper.errors import UnknownAgent as UnknownAgent
from trouper.errors import UnknownRun as UnknownRun
from trouper.models import Model as Model
from trouper.runtime import Commands as Commands
from trouper.runtime import DriftPolicy as DriftPolicy
from trouper.runtime import PendingApproval as PendingApproval
from trouper.runtime import Run as Run
from trouper.runtime import RunResult as RunResult
from trouper.runtime import Runtime as Runtime
from trouper.runtime import RuntimeOptions as RuntimeOptions
from trouper.runtime import Task as Task
from trouper.tools import Absent as Absent
from trouper.tools import Found as Found
from trouper.tools import Tool as Tool
from trouper.tools import ToolContext as ToolContext
from trouper.tools import Unsure as Unsure
from trouper.tools import tool as tool
