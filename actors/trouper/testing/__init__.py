"""The public test kit."""

from ._answers import Chunks as Chunks
from ._answers import Drop as Drop
from ._answers import Raw as Raw
from ._answers import Reply as Reply
from ._answers import Status as Status
from ._answers import Wait as Wait
from ._answers import tc as tc
from ._clock import ManualClock as ManualClock
from ._scripted import ModelRequest as ModelRequest
from ._scripted import ScriptedModel as ScriptedModel
from ._scripted import Step as Step
from ._scripted import UnexpectedModelCall as UnexpectedModelCall
from ._scripted import UnusedModelSteps as UnusedModelSteps
from ._scripted import call as call
from ._scripted import calls as calls
from ._scripted import raw_call as raw_call
from ._strict import violations as violations
from ._stub import StrictStub as StrictStub
from ._stub import StubRequest as StubRequest
from ._stub import strict_stub as strict_stub
