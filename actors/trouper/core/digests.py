"""Keyed digests over content: equal content gives equal digests within a run, and tells nobody anything outside it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from trouper.core.conversation import AI, Message, ToolMessage
from trouper_journal import Value, content_digest


def message_value(message: Message) -> Value:
    """A message as a plain value, without its id: what was said, not where it stands."""
    body: list[Value] = [message.role, _plain(message.content), dict(message.extra)]
    if isinstance(message, AI):
        calls: list[Value] = [[call.id, call.name, call.arguments, dict(call.extra)] for call in message.tool_calls]
        body += [calls, message.reasoning, message.refusal]
    elif isinstance(message, ToolMessage):
        body += [message.call_id, message.name, message.status]
    return body


def _plain(content: str | tuple[Mapping[str, Value], ...] | None) -> Value:
    return content if content is None or isinstance(content, str) else [dict(part) for part in content]


def extend_chain(chain: bytes, salt: bytes, message: Message) -> bytes:
    """The digest over the digests of all messages, one message on; each message is hashed once."""
    return hashlib.sha256(chain + content_digest(salt, message_value(message))).digest()


def request_digest(chain: bytes, definition: str, closing: bool, tools: tuple[str, ...] | None = None) -> bytes:
    """Digest of a model request: of its messages in order, of the definition, and of tools chosen for it alone."""
    if tools is not None:
        chain = hashlib.sha256(chain + "\n".join(tools).encode()).digest()
    return hashlib.sha256(
        chain + definition.encode("utf-8", "surrogatepass") + (b"\x01" if closing else b"\x00")
    ).digest()


def call_digest(salt: bytes, tool: str, identity: bytes, arguments: Mapping[str, Value]) -> bytes:
    """What an approval binds to: the tool, what it promises, and the arguments."""
    return content_digest(salt, [tool, identity, dict(arguments)])
