"""What a model is."""

from trouper.core.exchange import Chunk as Chunk
from trouper.core.exchange import Finished as Finished
from trouper.core.exchange import ModelConfig as ModelConfig
from trouper.core.exchange import ModelReply as ModelReply
from trouper.core.exchange import ReasoningDelta as ReasoningDelta
from trouper.core.exchange import RefusalDelta as RefusalDelta
from trouper.core.exchange import TextDelta as TextDelta
from trouper.core.exchange import ToolCallDelta as ToolCallDelta
from trouper.core.exchange import UsageDelta as UsageDelta

from ._protocol import Model as Model
from ._protocol import OutputSupport as OutputSupport
from ._protocol import StreamingModel as StreamingModel
from ._protocol import astream as astream
from ._protocol import collect as collect
from ._protocol import identity as identity
from ._protocol import output_support as output_support
from ._protocol import pieces as pieces
