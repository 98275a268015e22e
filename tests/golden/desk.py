"""The agents whose runs stand in the golden run journals, as the release that wrote them defined them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio

from trouper import AI, Absent, Agent, Found, Human, Message, ModelError, ModelReply, ToolSpec, TransientError, tool
from trouper.core.conversation import Usage, Value
from trouper.core.exchange import ModelConfig
from trouper.testing import call, calls, raw_call
from trouper.tools import Tool


def cut_off() -> ModelReply:
    """A reply that ran into its length limit."""
    return ModelReply(raw_call("note", '{"text": "hal'), "length", Usage(10, 64), truncated=True)


def busy() -> ModelError:
    return ModelError("the provider answered 429: busy", retryable=True, retry_after=7.0, status=429)


WIPE_TWO = calls(call("wipe", disk="a"), call("wipe", disk="b"), call("lookup", ticket="INC-7"))
SCRIPTS: Mapping[str, Sequence[AI | str | ModelReply | Exception]] = {
    "answer": ["Hello."],
    "think": [
        ModelReply(
            AI(
                "", "Let me see.", call("lookup", ticket="INC-1").tool_calls, "Hm.", None, "reasoning_content", {"x": 1}
            ),
            "tool_calls",
            Usage(10, 5),
            model="scripted-1",
            request_id="req-1",
        ),
        "INC-1 is open.",
    ],
    "bad calls": [calls(raw_call("lookup", "{"), raw_call("lookup", "{}"), raw_call("shred", "{}")), "Sorry."],
    "approve": [WIPE_TWO, "Wiped."],
    "edit": [call("wipe", disk="a"), "Wiped another."],
    "expire": [call("wipe", disk="a"), "Nobody agreed."],
    "half done": [WIPE_TWO, "Wiped."],
    "doubt": [call("transfer", amount=5), "Well."],
    "doubt left": [call("transfer", amount=5), "Well."],
    "cancel": [calls(call("transfer", amount=5), call("note", text="kept")), "never"],
    "limit": [call("note", text="1"), call("note", text="2"), call("note", text="3"), "Enough."],
    "finish": [call("note", text="1"), call("note", text="2"), "Wrapped up."],
    "cut off": [cut_off(), cut_off(), cut_off(), "never"],
    "retry": ["Back again."],
    "transient": [call("flaky", n=1), "Worked."],
    "give up": ["Resumed."],
    "stop": [call("wait", n=1), "Stopped and started."],
    "ask": ["Asked again."],
    "query": [call("book", day=3), "Booked."],
    "late": [call("slow", n=1), "Settled."],
    "changed": [call("wipe", disk="a"), "Asked anew."],
    "drift": [call("wipe", disk="a"), "Adopted."],
}


class GoldenModel:
    """Answers by the text of the first message and the number of replies since."""

    name = "golden-1"

    def __init__(self) -> None:
        self.failures: dict[str, list[Exception]] = {"retry": [busy()], "give up": [ModelError("no such model")]}
        self.asked = trio.Event()
        self.hangs = True

    def identity(self) -> Mapping[str, Value]:
        return {"provider": "golden", "model": self.name}

    async def agenerate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        config: ModelConfig | None = None,
    ) -> ModelReply:
        asked = next(message.content for message in messages if isinstance(message, Human))
        assert isinstance(asked, str)
        if asked == "ask" and self.hangs:
            self.asked.set()
            await trio.sleep_forever()
        if failures := self.failures.get(asked):
            raise failures.pop()
        answer = SCRIPTS[asked][sum(isinstance(message, AI) for message in messages)]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ModelReply):
            return answer
        message = AI("", answer) if isinstance(answer, str) else answer
        return ModelReply(message, "tool_calls" if message.tool_calls else "stop", Usage(10, 5))


class Desk:
    """Tools and agent; the effects are kept in a list."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.model = GoldenModel()
        self.stopped = False
        self.began = trio.Event()
        self.release = trio.Event()

    def tools(self, version: str = "1") -> list[Tool[..., object]]:
        effects = self.effects
        broken: set[str] = set()

        @tool(effect="read_only")
        async def lookup(ticket: str) -> dict[str, Value]:
            """Read a ticket.

            Args:
                ticket: Number of the ticket.
            """
            return {"ticket": ticket, "status": "open"}

        @tool(effect="idempotent_write")
        async def note(text: str) -> str:
            """Take a note."""
            effects.append(f"note {text}")
            return f"noted {text}"

        @tool(requires_approval=True, approval_expires=3600, version=version)
        async def wipe(disk: str) -> str:
            """Wipe a disk."""
            effects.append(f"wipe {disk}")
            return f"wiped {disk}"

        @tool(effect="unqueryable_write")
        async def transfer(amount: int) -> str:
            """Transfer money over a line that breaks."""
            effects.append(f"transfer {amount}")
            raise OSError("connection reset")

        @tool(effect="idempotent_write")
        async def flaky(n: int) -> str:
            """Work the second time."""
            if "flaky" not in broken:
                broken.add("flaky")
                raise TransientError("busy")
            effects.append(f"flaky {n}")
            return "worked"

        @tool(effect="idempotent_write")
        async def wait(n: int) -> str:
            """Wait until the process stops; return at once after that."""
            self.began.set()
            if not self.stopped:
                await trio.sleep_forever()
            effects.append(f"wait {n}")
            return "waited"

        def booked(day: int) -> Found | Absent:
            return Found("booked") if f"book {day}" in effects else Absent()

        @tool(effect="queryable_write", query=booked)
        async def book(day: int) -> str:
            """Book a day; the first time the line breaks before anything is booked."""
            if "book" not in broken:
                broken.add("book")
                raise OSError("connection refused")
            effects.append(f"book {day}")
            return "booked"

        @tool(timeout=5)
        async def slow(n: int) -> str:
            """End long after its time."""
            with trio.CancelScope(shield=True):
                await self.release.wait()
            effects.append(f"slow {n}")
            return "done at last"

        return [lookup, note, wipe, transfer, flaky, wait, book, slow]

    def agent(self, *, tools: Sequence[Tool[..., object]] | None = None, instructions: str = "Do it.") -> Agent:
        return Agent("desk", instructions, tools=self.tools() if tools is None else tools, model=self.model)
