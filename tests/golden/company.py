"""The agents of the golden run journals that use more than a desk's tools, as the release that wrote them had them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen
from tests.golden.scripts import SCRIPTS

from trouper import (
    AI,
    Agent,
    AuthorizeRequest,
    AutoApprove,
    AutoDeny,
    Denied,
    History,
    Human,
    Image,
    Message,
    ModelError,
    ModelReply,
    Output,
    People,
    ProposedCall,
    StateKey,
    StepView,
    ToolContext,
    ToolResult,
    ToolSpec,
    requires_receipt,
    tool,
)
from trouper.core.conversation import Usage, Value, text
from trouper.core.exchange import ModelConfig
from trouper.hooks import (
    Answer,
    Call,
    CallResult,
    Drop,
    Fail,
    Hook,
    Insert,
    ModelFailure,
    Replace,
    Reply,
    SetArguments,
    Spend,
    Update,
    UseModel,
    View,
)
from trouper.timers import wait
from trouper.tools import Tool

PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


@define(eq=False)
class CompanyModel:
    """Answers by the last thing said that a script begins with (pictures aside), and the number of replies since.

    Attributes:
        name: The model's name.
        broken: Whether it is out of order.
    """

    name: str = "golden-2"
    broken: bool = False

    def identity(self) -> Mapping[str, Value]:
        return {"provider": "golden", "model": self.name}

    async def agenerate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        config: ModelConfig | None = None,
    ) -> ModelReply:
        if self.broken:
            raise ModelError("out of order", status=503)
        place, asked = max(
            (place, said)
            for place, message in enumerate(messages)
            if isinstance(message, Human) and (said := text(message.content).partition("[")[0]) in SCRIPTS
        )
        answer = SCRIPTS[asked][sum(isinstance(message, AI) for message in messages[place:])]
        message = AI("", answer) if isinstance(answer, str) else answer
        return ModelReply(message, "tool_calls" if message.tool_calls else "stop", Usage(10, 5))


@define(eq=False)
class Summariser:
    """Makes one summary, and no second one."""

    name: str = "golden-summary"
    asked: int = 0

    def identity(self) -> Mapping[str, Value]:
        return {"provider": "golden", "model": self.name}

    async def agenerate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        config: ModelConfig | None = None,
    ) -> ModelReply:
        self.asked += 1
        if self.asked > 1:
            raise ModelError("no summary today", retryable=True)
        return ModelReply(AI("", "They said hello."), "stop", Usage(20, 4), model="golden-summary-1")


class House(Hook):
    """The rules of the house, at all points of a run."""

    async def before_model(self, view: View) -> Sequence[Insert | Drop | Reply | Fail]:
        said = text(view.messages[-1].content)
        if said == "ping":
            return [Reply(AI("", "pong"))]
        if said == "forbidden":
            return [Fail("the house says no")]
        if view.index == 0:
            return [Insert(Human("", "Be polite."), after=view.messages[-1].id)]
        return [Drop([message.id for message in view.messages if message.content == "Be polite."])]

    async def after_model(self, view: View, reply: AI) -> Sequence[Update | Replace | Spend]:
        seen = Update({"seen": len(view.messages)})
        if reply.content != "Noted.":
            return [seen]
        return [seen, Spend("golden-judge", 7, 3), Replace(AI(reply.id, "Noted, and checked."))]

    async def before_tool(self, view: View, call: Call) -> SetArguments | Answer | None:
        if call.arguments is None:
            return None
        said = call.arguments["text"]
        if said == "secret":
            return Answer("Not noted: the house forbids it.", ok=False)
        return SetArguments({"text": f"{said!s}, please"})

    async def after_tool(self, view: View, call: Call, result: CallResult) -> Answer:
        return Answer(f"{result.text}!")

    async def on_error(self, view: View, error: ModelFailure) -> UseModel:
        return UseModel("backup", error.message)


@frozen
class Ticket:
    """What a complaint is about."""

    subject: str
    days: int = 0


def ten(_: Message) -> int:
    return 10


def longest(old: str | None, new: str) -> str:
    return new if old is None or len(new) > len(old) else old


def dear(call: ProposedCall) -> bool:
    amount = call.arguments["amount"]
    return isinstance(amount, int) and amount > 10_000


def petty(call: ProposedCall) -> bool:
    amount = call.arguments["amount"]
    return isinstance(amount, int) and amount <= 20


async def under_contract(request: AuthorizeRequest) -> bool | Denied:
    return Denied("Ann is under contract until May") if request.arguments["customer"] == "Ann" else True


def choose(step: StepView) -> list[str]:
    if text(step.messages[0].content) == "move badly":
        raise LookupError("no such customer")
    return ["move"] if step.state["verified"] else ["verify"]


POLICIES = [
    AutoDeny(tools=["refund"], when=dear, reason="the bank does that"),
    AutoApprove(tools=["refund"], when=petty, reason="petty cash"),
    People(
        tools=["refund"],
        quorum=2,
        from_=("maria", "otto", "ida"),
        separation=True,
        expires=3600,
        on_expiry=People(from_=("eva",), expires=86_400),
        reason="four eyes",
    ),
]


@define(eq=False)
class Company:
    """Tools and agents; the effects are kept in a list."""

    effects: list[str] = field(factory=list)
    model: CompanyModel = field(factory=CompanyModel)

    def _writes(self) -> dict[str, Tool[..., object]]:
        effects = self.effects

        @tool(effect="read_only", max_result=20)
        async def search(query: str) -> str:
            """Search the archive."""
            return f"a note on {query}"

        @tool(effect="idempotent_write")
        async def note(text: str) -> str:
            """Take a note."""
            effects.append(f"note {text}")
            return f"noted {text}"

        @tool(effect="idempotent_write", requires_approval=True)
        async def send(to: str) -> str:
            """Send a letter."""
            effects.append(f"send {to}")
            return f"sent to {to}"

        @tool(effect="idempotent_write", requires_approval=True)
        async def refund(order: str, amount: int) -> str:
            """Refund an order."""
            effects.append(f"refund {order} {amount}")
            return f"refunded {amount} for {order}"

        @tool(effect="idempotent_write")
        async def pay(amount: int) -> str:
            """Pay."""
            effects.append(f"pay {amount}")
            return f"paid {amount}"

        @tool(effect="idempotent_write", permissions=("crm:write",), authorize=under_contract)
        async def close(customer: str, ctx: ToolContext) -> str:
            """Close a customer's account."""
            effects.append(f"close {customer} {ctx.attempt}")
            return f"{customer} has left"

        return {each.name: each for each in (search, note, send, refund, pay, close)}

    def agents(self) -> list[Agent]:
        """All of them; those that others call are found by the runtime."""
        tools = self._writes()
        return [
            *self._family(tools),
            *self._writers(tools),
            Agent("clerk", tools=[tools["send"], wait], model=self.model),
            Agent("saver", tools=[tools["search"], tools["send"]], model=CompanyModel("golden-dear")),
            Agent("treasurer", tools=[tools["refund"], tools["send"]], model=self.model, approvals=POLICIES),
            Agent("guard", tools=[tools["close"]], model=self.model),
            Agent("payer", tools=[tools["search"], tools["pay"]], model=self.model),
            Agent("talker", model=self.model, history=History(40, keep_last=2, summarise=Summariser(), count=ten)),
            Agent("mailer", tools=[tools["send"]], model=self.model),
        ]

    def _family(self, tools: Mapping[str, Tool[..., object]]) -> list[Agent]:
        researcher = Agent("researcher", tools=[tools["search"], tools["send"]], model=self.model)
        expert = Agent("expert", "Take over.", model=self.model, description="Knows better.")
        lead = Agent(
            "lead",
            tools=[researcher.as_tool(output_key="notes"), expert.as_tool(handoff=True)],
            model=self.model,
            state={"notes": StateKey(list[str], reducer="append")},
        )
        return [lead]

    def _writers(self, tools: Mapping[str, Tool[..., object]]) -> list[Agent]:
        @tool(effect="read_only")
        async def collect(topic: str) -> ToolResult:
            """Collect what there is."""
            found = f"three books about {topic}"
            update = {"notes": found, "counts": {topic: 3}, "longest": topic}
            return ToolResult(found, artifact={"rows": [[topic, 3]]}, update=update)

        @tool(effect="read_only")
        async def plot(month: str) -> list[object]:
            """Plot the month."""
            return [f"{month} went up.", Image(PIXEL)]

        @tool(effect="idempotent_write")
        async def verify(code: str) -> ToolResult:
            """Check a customer's code."""
            return ToolResult("The customer is known.", update={"verified": code == "4711"})

        @tool(effect="idempotent_write", return_direct=True)
        async def move(street: str) -> str:
            """Change the customer's address."""
            return f"Moved to {street}."

        note, search = tools["note"], tools["search"]
        return [
            Agent(
                "careful",
                tools=[note],
                model=self.model,
                models={"backup": CompanyModel("golden-backup")},
                hooks=[House()],
                state={"seen": StateKey(int, default=0)},
            ),
            Agent(
                "librarian",
                tools=[collect, plot],
                model=self.model,
                state={
                    "notes": StateKey(list[str], reducer="append"),
                    "counts": StateKey(dict[str, int], reducer="merge"),
                    "longest": StateKey(str, reducer=longest),
                    "ticket": StateKey(str, default="none"),
                },
            ),
            Agent("reader", model=self.model, output=Output(Ticket, mode="instruction")),
            Agent("teller", tools=[search], model=self.model, output=Output(list[int], mode="tool", rounds=1)),
            Agent("closer", tools=[note], model=self.model, completion=[requires_receipt("note")]),
            Agent(
                "mover",
                tools=[verify, move],
                model=self.model,
                bind=choose,
                state={"verified": StateKey(bool, default=False)},
            ),
        ]
