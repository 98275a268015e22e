"""What can go wrong in a call, told as `ModelError`."""

from __future__ import annotations

import email.utils
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx

from trouper.core.chat_reply import retryable_status
from trouper.errors import ModelError
from trouper.tools import Redactor

_EXCERPT = 500


def transport_errors() -> tuple[type[Exception], ...]:
    """The HTTP library's errors, which the SDK lets through while a body is read.

    The SDK builds on httpx up to its version 2 and on httpx2 since its version 3.
    """
    try:
        import httpx2
    except ImportError:
        return (httpx.HTTPError, httpx.StreamError)
    return (httpx.HTTPError, httpx.StreamError, httpx2.HTTPError, httpx2.StreamError)


@contextmanager
def told_as_model_errors(secret: str | None) -> Iterator[None]:
    """Turn what the SDK and its HTTP library raise into `ModelError`, with the API key blotted out."""
    import openai

    failures: tuple[type[Exception], ...] = (openai.OpenAIError, *transport_errors())
    try:
        yield
    except ModelError as error:
        told = _blotted(error, secret)
        if str(told) == str(error):
            raise
        raise told from None
    except UnicodeEncodeError:
        # It holds the key or the header that it is about.
        raise ModelError("the API key or a header has characters that HTTP headers cannot carry") from None
    except failures as error:
        told = _blotted(_told(error), secret)
        # The error underneath may hold the key as well, and would be printed with ours.
        underneath = f"{error}{error.__cause__}"
        raise told from (error if _masked(underneath, secret) == underneath else None)


def _told(error: Exception) -> ModelError:
    import openai

    match error:
        case openai.APIStatusError():
            return _status_error(error.status_code, error.body, error.response.headers)
        case openai.APITimeoutError():
            return ModelError("the model call timed out", retryable=True)
        case openai.APIConnectionError():
            return ModelError(f"no connection to the model: {describe(error.__cause__ or error)}", retryable=True)
        case openai.OpenAIError():
            return ModelError(f"the model call failed: {describe(error)}")
        case _:
            return ModelError(f"the connection to the model broke off: {describe(error)}", retryable=True)


def _blotted(error: ModelError, secret: str | None) -> ModelError:
    return ModelError(
        blot(str(error), secret), retryable=error.retryable, retry_after=error.retry_after, status=error.status
    )


def describe(error: BaseException) -> str:
    """An error in a line, with its class where its text says nothing."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def blot(text: str, secret: str | None) -> str:
    """The text without the API key, which some gateways repeat, and not longer than a log wants."""
    # Masked before it is cut: a cut could leave half of the key.
    clean = _masked(text, secret)
    return clean if len(clean) <= _EXCERPT else f"{clean[:_EXCERPT]}..."


def _masked(text: str, secret: str | None) -> str:
    return Redactor([secret]).text(text) if secret else text


def _status_error(status: int, body: object, headers: Mapping[str, str]) -> ModelError:
    told: object = body
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        told = inner.get("message", inner) if isinstance(inner, Mapping) else inner
    return ModelError(
        f"the provider answered {status}: {str(told or '(no text)').strip()}",
        retryable=retryable_status(status),
        retry_after=retry_after(headers),
        status=status,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks to wait (``Retry-After``, RFC 9110 section 10.2.3, and ``retry-after-ms``).

    A date is taken relative to the response's own ``Date``, so that no clock of ours comes in.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    until, sent = _date(headers.get("retry-after")), _date(headers.get("date"))
    return max(0.0, until - sent) if until is not None and sent is not None else None


def _date(text: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text or "").timestamp()
    except ValueError:
        return None
