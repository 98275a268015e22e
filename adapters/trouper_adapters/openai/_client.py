"""The SDK's client: made when it is first needed, one for each Trio run, with the SDK's own retries off."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, cast

import trio
from attrs import field, frozen

from trouper.core.chat_request import Dialect
from trouper.core.conversation import Value
from trouper.errors import ModelError
from trouper.models import OutputSupport
from trouper_journal import Printable

from ._failures import blot, describe, told_as_model_errors

if TYPE_CHECKING:
    from openai import AsyncAPIResponse, AsyncOpenAI
    from openai.types.chat import ChatCompletion

    Response = AsyncAPIResponse[ChatCompletion]


def _no_headers() -> dict[str, str]:
    return {}


@frozen(repr=False)
class OpenAIOptions(Printable):
    """How to reach an endpoint, where the usual ways do not do.

    Attributes:
        timeout: Seconds that connecting, or waiting for the next bytes, may take; a limit for the whole call is the
            caller's ``trio.fail_after``.
        headers: Further HTTP headers; never journaled.
        organization: OpenAI's organization, else the SDK's environment variable.
        project: OpenAI's project, else the SDK's environment variable.
        dialect: How the endpoint differs; None takes OpenAI's own for openai.com and azure.com, the common one
            elsewhere.
        output_support: How far the model can be held to a schema; see `trouper.models.output_support`. None takes
            ``with_tools`` for OpenAI's own address and azure.com, ``none`` elsewhere.
    """

    timeout: float = 600.0
    headers: Mapping[str, str] = field(factory=_no_headers, repr=False)
    organization: str | None = None
    project: str | None = None
    dialect: Dialect | None = None
    output_support: OutputSupport | None = None


class Connection:
    """An endpoint and the client that speaks to it."""

    def __init__(self, base_url: str | None, api_key: str | None, options: OpenAIOptions) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._options = options
        self._client: AsyncOpenAI | None = None
        self._run: trio.lowlevel.TrioToken | None = None
        self._making: tuple[trio.lowlevel.TrioToken, trio.Lock] | None = None

    async def aclose(self) -> None:
        """Close the connections that are open; the next call opens new ones. Done even where cancelled."""
        client, run = self._client, self._run
        self._client = self._run = None
        if client is not None and run is trio.lowlevel.current_trio_token():
            with trio.CancelScope(shield=True):
                await client.close()
        await trio.lowlevel.checkpoint()

    async def open(self) -> AsyncOpenAI:
        """The client of this Trio run.

        Raises:
            ModelError: If there is no API key, or an option is wrong.
        """
        run = trio.lowlevel.current_trio_token()
        if self._client is not None and self._run is run:
            return self._client
        if self._making is None or self._making[0] is not run:
            self._making = (run, trio.Lock())
        # After a restart many calls are the first at once, and each client costs a set of certificates.
        async with self._making[1]:
            if self._client is None or self._run is not run:
                # Importing the SDK and reading the certificates take a second: not on Trio's thread. A client without
                # connections needs no closing, so that nobody has to wait for one that nobody wants any more.
                self._client = await trio.to_thread.run_sync(self._make, abandon_on_cancel=True)
                self._run = run
            return self._client

    def _make(self) -> AsyncOpenAI:
        import openai

        # What the first request would else import on Trio's thread: anyio's side of it, and below the SDK's resources.
        with suppress(ImportError):
            importlib.import_module("anyio._backends._trio")
        try:
            client = openai.AsyncOpenAI(
                api_key=self._api_key,
                base_url=self._base_url,
                organization=self._options.organization,
                project=self._options.project,
                timeout=self._options.timeout,
                default_headers=dict(self._options.headers),
                max_retries=0,
            )
            _ = client.chat.completions.with_streaming_response
        except openai.OpenAIError as error:
            raise ModelError(
                f"no client for the model: {blot(describe(error), self._api_key)}; "
                "give OpenAIModel an api_key (any text will do for a server that asks for none)"
            ) from error
        return client

    def dialect(self, client: AsyncOpenAI) -> Dialect:
        """How this endpoint differs."""
        if self._options.dialect is not None:
            return self._options.dialect
        host = client.base_url.host
        own = host.endswith((".openai.com", ".azure.com"))
        return Dialect(max_tokens_field="max_completion_tokens" if own else "max_tokens")

    @asynccontextmanager
    async def post(self, client: AsyncOpenAI, body: Mapping[str, Value]) -> AsyncIterator[Response]:
        """Send one request, once; the response's body is still to be read.

        Raises:
            ModelError: If there is no response, or it is an error.
        """
        with told_as_model_errors(client.api_key):
            # As extra fields the body goes out as it is, instead of through the SDK's conversion of known ones.
            request = client.chat.completions.with_streaming_response.create(
                model=cast("str", body["model"]), messages=[], extra_body=dict(body)
            )
            async with request as response:
                yield response
