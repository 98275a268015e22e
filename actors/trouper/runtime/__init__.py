"""The shell: actors that carry decisions out."""

from trouper.runtime.artifacts import Artifact as Artifact
from trouper.runtime.commands import Commands as Commands
from trouper.runtime.commands import PendingApproval as PendingApproval
from trouper.runtime.descent import ChildRun as ChildRun
from trouper.runtime.desk import DriftPolicy as DriftPolicy
from trouper.runtime.options import RuntimeOptions as RuntimeOptions
from trouper.runtime.results import RunResult as RunResult
from trouper.runtime.run import Run as Run
from trouper.runtime.runtime import Runtime as Runtime
from trouper.runtime.session import Session as Session
from trouper.runtime.sessions import SessionView as SessionView
from trouper.runtime.sessions import TurnView as TurnView
from trouper.runtime.tasks import SubmitOptions as SubmitOptions
from trouper.runtime.tasks import Task as Task
