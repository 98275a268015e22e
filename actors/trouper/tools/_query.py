"""Asking a ``queryable_write`` whether a call that was interrupted took place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import frozen

from trouper_journal import Plain

from ._attempt import Attempt, Target, ToolHost
from ._call import Waiting
from ._context import ToolContext
from ._outcomes import Failed
from ._redact import Redactor
from ._tool import Tool
from ._tool_result import ToolResult, returned


@frozen(slots=False, repr=False, eq=False)
class Found(Plain):
    """A query's answer: the call took place.

    Attributes:
        value: What the tool would have returned, a `ToolResult` included.
    """

    value: object = None


@frozen(slots=False, repr=False, eq=False)
class Absent(Plain):
    """A query's answer: the call did not take place, and will not by itself."""


@frozen(slots=False, repr=False, eq=False)
class Unsure(Plain):
    """A query's answer: it cannot tell.

    Attributes:
        reason: Why.
    """

    reason: str = ""


QueryReturn: TypeAlias = Found | Absent | Unsure


async def call_query(
    tool: Tool[..., object],
    arguments: Mapping[str, object],
    *,
    context: ToolContext,
    secrets: Mapping[str, str],
    host: ToolHost,
) -> QueryReturn:
    """Ask a tool's query. It gets those of the call's arguments, secrets and context that it declares.

    It runs under the tool's time limit. Whatever is no clear answer (an exception, a timeout, any other return value)
    is `Unsure`: a guess could do an effect twice, or never.

    Returns:
        The answer; the value of `Found` is a journal value with secrets masked, or `Returned` where it is more.

    Raises:
        ValueError: The tool has no query.
        trio.Cancelled: Cancelled before the query started. Later it is as with `call_tool`.
    """
    query, signature = tool.options.query, tool.query_signature
    if query is None or signature is None:
        raise ValueError(f"tool {tool.name} has no query")
    redactor = Redactor(secrets.values())
    known = {parameter.name for parameter in signature.parameters}
    given = {name: value for name, value in arguments.items() if signature.takes_any or name in known}

    def accept(answer: object) -> QueryReturn:
        match answer:
            case Found(value):
                found = returned(value, redactor)
                return Found(found if isinstance(value, ToolResult) or found.parts else found.value)
            case Absent():
                return answer
            case Unsure(reason):
                return Unsure(redactor.text(reason))
            case _:
                return Unsure(f"the query returned {type(answer).__name__}, not Found, Absent or Unsure")

    waiting = Waiting[QueryReturn]()
    attempt = Attempt(
        target=Target(query, signature, given, secrets),
        name=f"{tool.name} query",
        context=context,
        host=host,
        seconds=tool.options.timeout,
        redactor=redactor,
        accept=accept,
        done=waiting.take,
        late=_forget,
    )
    outcome = await waiting.wait_for(attempt)
    return Unsure(outcome.message) if isinstance(outcome, Failed) else outcome


def _forget(outcome: QueryReturn | Failed) -> None:
    pass
