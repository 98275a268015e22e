"""`OpenAIModel`: Chat Completions through the ``openai`` SDK on Trio.

It reads the raw response itself, whole or as events: that costs a quarter of the SDK's stream objects, and leaves no
generator behind when a call is cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from trouper.core.chat_reply import read_reply
from trouper.core.chat_request import request_body
from trouper.core.chat_stream import StreamedReply
from trouper.core.conversation import Message, ToolSpec, Value
from trouper.core.exchange import Chunk, Finished, ModelConfig, ModelReply
from trouper.errors import DefinitionError
from trouper.models import OutputSupport, collect, pieces

from ._body import bodies, whole
from ._client import Connection
from ._client import OpenAIOptions as OpenAIOptions

if TYPE_CHECKING:
    from ._client import Response


class OpenAIModel:
    """A model of OpenAI's, or of any endpoint that speaks Chat Completions (vLLM, Ollama, DeepSeek, ...).

    One call is one request: nothing is retried here. The ``openai`` SDK is imported at the first call. Cancelling a
    call ends its request at once; the provider may still bill it.

    Args:
        model: The provider's name of the model.
        base_url: The endpoint, such as ``http://localhost:11434/v1``; None leaves it to the SDK (``OPENAI_BASE_URL``,
            else OpenAI's own).
        api_key: The key; None leaves it to the SDK (``OPENAI_API_KEY``). It appears in no repr, error or journal.
        settings: Settings of every call, where the call itself sets nothing else.
        stream: Whether `agenerate` asks for a streamed reply too; some endpoints answer sooner or only that way.
        options: How to reach the endpoint.

    Raises:
        DefinitionError: ``base_url`` is no http or https address.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: ModelConfig | None = None,
        stream: bool = False,
        options: OpenAIOptions | None = None,
    ) -> None:
        self._model = model
        self._address = None if base_url is None else _public_url(base_url)
        self._settings = settings or ModelConfig()
        self._stream = stream
        self._options = options or OpenAIOptions()
        self._connection = Connection(base_url, api_key, self._options)

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r}, base_url={self._address!r})"

    @property
    def name(self) -> str:
        """The provider's name of the model."""
        return self._model

    @property
    def output_support(self) -> OutputSupport:
        """How far it can be held to a schema: as its options say, else by its address."""
        if (told := self._options.output_support) is not None:
            return told
        host = "api.openai.com" if self._address is None else urlsplit(self._address).hostname or ""
        own = host in {"openai.com", "azure.com"} or host.endswith((".openai.com", ".azure.com"))
        return "with_tools" if own else "none"

    def identity(self) -> Mapping[str, Value]:
        """What the journal keeps about this model: provider, name, endpoint and settings, no secrets."""
        return {
            "provider": "openai-chat",
            "model": self._model,
            "base_url": self._address,
            "settings": self._settings.to_value(),
        }

    async def agenerate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), config: ModelConfig | None = None
    ) -> ModelReply:
        """Answer a conversation with one request; see `trouper.models.Model.agenerate`.

        Raises:
            ModelError: If there is no reply. After 408, 409, 425, 429 and 5xx, broken connections, timeouts and
                answers that make no sense it is retryable; after other statuses it is not.
        """
        return await collect(self._exchange(messages, tools, config, stream=self._stream))

    def astream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), config: ModelConfig | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """Answer a conversation piece by piece; see `trouper.models.StreamingModel.astream`.

        Use it under ``contextlib.aclosing``.

        Raises:
            ModelError: As `agenerate` does, and if the stream breaks off before its end.
        """
        return self._exchange(messages, tools, config, stream=True)

    async def _exchange(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], config: ModelConfig | None, *, stream: bool
    ) -> AsyncGenerator[Chunk, None]:
        client = await self._connection.open()
        settings = self._settings if config is None else config.over(self._settings)
        dialect = self._connection.dialect(client)
        body = request_body(self._model, messages, tools, config=settings, dialect=dialect, stream=stream)
        async with self._connection.post(client, body) as response:
            # What the server really sent counts: some stream unasked, some answer whole when asked to stream.
            if "event-stream" not in response.headers.get("content-type", ""):
                reply = read_reply(await whole(response), settings, request_id=response.request_id)
                for chunk in pieces(reply):
                    yield chunk
                return
            async with aclosing(_streamed(response, settings)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def aclose(self) -> None:
        """Close the open connections. The model can be used again afterwards."""
        await self._connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _streamed(response: Response, settings: ModelConfig) -> AsyncGenerator[Chunk, None]:
    reply = StreamedReply()
    async with aclosing(bodies(response)) as events:
        async for body in events:
            for chunk in reply.feed(body):
                yield chunk
    yield Finished(reply.finish(settings, request_id=response.request_id))


def _public_url(url: str) -> str:
    """The address without user, password and query, which may be secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme not in {"http", "https"} or not host:
        # The address itself stays out: it may hold a password.
        raise DefinitionError("base_url is no address such as http://localhost:11434/v1")
    return f"{parts.scheme}://{host}{parts.path}"
