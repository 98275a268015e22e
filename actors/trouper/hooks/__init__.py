"""Hooks: what is called at named points of a run, and may change what happens there."""

from trouper.core.hook_ops import Answer as Answer
from trouper.core.hook_ops import Drop as Drop
from trouper.core.hook_ops import Fail as Fail
from trouper.core.hook_ops import Insert as Insert
from trouper.core.hook_ops import Replace as Replace
from trouper.core.hook_ops import Reply as Reply
from trouper.core.hook_ops import SetArguments as SetArguments
from trouper.core.hook_ops import Spend as Spend
from trouper.core.hook_ops import Update as Update
from trouper.core.hook_ops import UseModel as UseModel

from ._fallback import ModelFallback as ModelFallback
from ._given import cast_of as cast_of
from ._given import hooks_in as hooks_in
from ._given import points_in as points_in
from ._hook import Call as Call
from ._hook import CallResult as CallResult
from ._hook import Hook as Hook
from ._hook import ModelFailure as ModelFailure
from ._hook import View as View
from ._hook import points_of as points_of
from ._limiting import ToolCallLimit as ToolCallLimit
from ._redacting import Redact as Redact
from ._summarising import Summarise as Summarise
from ._trimming import TrimContext as TrimContext
