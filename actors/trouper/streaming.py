"""What the stream of a run brings; see `trouper.Run.stream`."""

from trouper.runtime.broadcast import CallPiece as CallPiece
from trouper.runtime.broadcast import ReasoningPiece as ReasoningPiece
from trouper.runtime.broadcast import RefusalPiece as RefusalPiece
from trouper.runtime.broadcast import TextPiece as TextPiece
from trouper.runtime.broadcast import ToolProgress as ToolProgress
from trouper.runtime.stream import Ended as Ended
from trouper.runtime.stream import Recorded as Recorded
from trouper.runtime.stream import RunStream as RunStream
from trouper.runtime.stream import Skipped as Skipped
from trouper.runtime.stream import StreamEvent as StreamEvent
from trouper.runtime.stream import Superseded as Superseded
