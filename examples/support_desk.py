"""A support desk whose refunds two people must approve, in whichever process they sit.

Run it with ``python examples/support_desk.py``: the model is a script, so that you need no key. Small refunds need
nobody; for a large one two of the leads must agree, and not the one who asked. The program prints what each of them has
to type in a terminal of their own, and waits; interrupt it, start it again, and it waits on, with the votes it has.

``--as NAME`` says who asks (``ida`` by default, who then cannot approve). See afterwards who let what happen:
``trouper show support.db RUN``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import trio

from trouper import (
    Agent,
    AutoApprove,
    People,
    ProposedCall,
    RunError,
    Runtime,
    ToolContext,
    ToolMessage,
    TrouperError,
    tool,
)
from trouper.testing import ModelRequest, ScriptedModel, call, calls

LEADS = ("maria", "otto", "ida")


class Till:
    """Money, in a file. It pays nothing twice under one key."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pay(self, order: str, amount: int, *, idempotency_key: str) -> str:
        """Pay a refund."""
        paid: dict[str, list[object]] = json.loads(self._file.read_text()) if self._file.exists() else {}
        if idempotency_key not in paid:
            draft = self._file.with_suffix(".draft")
            draft.write_text(json.dumps({**paid, idempotency_key: [order, amount]}))
            draft.replace(self._file)  # in one step: what is interrupted has paid, or has not
        return f"paid {amount} for {order}"


def small(asked: ProposedCall) -> bool:
    """Whether a refund is petty cash."""
    amount = asked.arguments["amount"]
    return isinstance(amount, int) and amount <= 20


def make_desk(till: Till) -> Agent:
    """The agent."""

    @tool(effect="idempotent_write", requires_approval=True)
    def refund(order: str, amount: int, ctx: ToolContext) -> str:
        """Refund an order.

        Args:
            order: Order number, such as R-7.
            amount: Whole euros.
            ctx: The call; its effect key stays the same however often it is tried.
        """
        return till.pay(order, amount, idempotency_key=ctx.effect_key)

    def last_word(request: ModelRequest) -> str:
        told = [str(message.content) for message in request.messages if isinstance(message, ToolMessage)]
        return f"I have done what I could: {'; '.join(told)}."

    wishes = calls(call("refund", order="R-7", amount=15), call("refund", order="R-8", amount=300))
    return Agent(
        "support",
        "Refund what customers are owed.",
        tools=[refund],
        model=ScriptedModel([wishes, last_word], by_turn=True),
        approvals=[
            AutoApprove(tools=["refund"], when=small, reason="petty cash"),
            People(quorum=2, from_=LEADS, separation=True, expires=7 * 86_400, reason="four eyes"),
        ],
    )


async def tell_who_is_waited_for(runtime: Runtime, journal: Path) -> None:
    """Say what waits for whom, each time that somebody has decided."""
    told: set[tuple[str, tuple[str, ...]]] = set()
    async with runtime.journal.news() as news:
        while True:
            for pending in await runtime.approvals():
                if (pending.action, pending.approved_by) in told:
                    continue
                told.add((pending.action, pending.approved_by))
                others = [
                    name
                    for name in pending.eligible
                    if name not in pending.approved_by and not (pending.separation and name == pending.requested_by)
                ]
                wanted = f"{pending.tool}({json.dumps(dict(pending.arguments))})"
                print(f"{wanted}: {len(pending.approved_by)} of {pending.quorum} approvals; {pending.reason}")
                print(f"it waits for {' or '.join(others)} to type:")
                seen = f"--digest {pending.digest[:12]}"
                print(f"  trouper approve {journal} {pending.action} {seen} --as NAME", flush=True)
            await news.wait()


async def main(options: argparse.Namespace) -> int:
    """Open the runtime, ask, print the answer."""
    desk = make_desk(Till(options.journal.with_suffix(".till.json")))
    try:
        async with Runtime.open(options.journal, agents=[desk]) as runtime:
            run = await runtime.submit("support", "Refund R-7 and R-8", command_id="request-1", by=options.name)
            print(f"run {run.id}{', asked before' if run.repeated else ''}", flush=True)
            failure: RunError | None = None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tell_who_is_waited_for, runtime, options.journal)
                try:
                    result = await run.wait()
                except RunError as error:
                    failure = error  # raised outside of the nursery, which would wrap it in a group
                nursery.cancel_scope.cancel()
            if failure is not None:
                raise failure
    except TrouperError as error:
        print(error, file=sys.stderr)
        return 1
    print(result.output)
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="A support desk whose refunds two people must approve.")
    parser.add_argument("--journal", type=Path, default=Path("support.db"), help="the file (default: %(default)s)")
    parser.add_argument("--as", dest="name", default="ida", help="who asks (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    code = 130
    try:
        code = trio.run(main, read_options())
    except* KeyboardInterrupt:
        print("\ninterrupted; start it again, and it goes on")
    sys.exit(code)
