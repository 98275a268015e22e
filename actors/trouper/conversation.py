"""Reading conversations, and exchanging them with other systems, beside `Message` and its kinds in `trouper` itself."""

from __future__ import annotations

from trouper.core.chat import from_chat as from_chat
from trouper.core.chat import to_chat as to_chat
from trouper.core.chat_request import wire_messages as wire_messages
from trouper.core.conversation import text as text
