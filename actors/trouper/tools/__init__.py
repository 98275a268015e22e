"""Tools: functions that a model can call."""

from trouper.core.effects import Effect as Effect

from ._arguments import parse_arguments as parse_arguments
from ._call import ToolHost as ToolHost
from ._call import call_tool as call_tool
from ._context import NO_STATE as NO_STATE
from ._context import ToolContext as ToolContext
from ._outcomes import Failed as Failed
from ._outcomes import FailureKind as FailureKind
from ._outcomes import Returned as Returned
from ._outcomes import ToolReturn as ToolReturn
from ._query import Absent as Absent
from ._query import Found as Found
from ._query import QueryReturn as QueryReturn
from ._query import Unsure as Unsure
from ._query import call_query as call_query
from ._redact import Redactor as Redactor
from ._results import to_text as to_text
from ._results import to_value as to_value
from ._retry import Retry as Retry
from ._state import StateKey as StateKey
from ._state import StateKeys as StateKeys
from ._state import StateView as StateView
from ._state import changes as changes
from ._state import check_keys as check_keys
from ._state import defaults_of as defaults_of
from ._state import misfits as misfits
from ._state import view as view
from ._tool import Bound as Bound
from ._tool import Gate as Gate
from ._tool import Tool as Tool
from ._tool import tool as tool
from ._tool_result import Shown as Shown
from ._tool_result import ToolResult as ToolResult
from ._tool_result import shown as shown
