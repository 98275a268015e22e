"""Models behind OpenAI's API, or any endpoint that speaks Chat Completions."""

from trouper.core.chat_request import Dialect as Dialect

from ._client import OpenAIOptions as OpenAIOptions
from ._model import OpenAIModel as OpenAIModel
