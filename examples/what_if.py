"""What would the agent have done, had a tool answered otherwise? A fork tells, and does nothing outside.

Run it with ``python examples/what_if.py``: the model is a script, so that you need no key. A clerk pays an invoice in
full. The fork gives it another balance: it then wants to pay a part, which is only simulated. ``trouper diff what_if.db
FORK`` puts the two side by side; ``trouper show what_if.db FORK`` says which calls were answered from the record.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import trio

from trouper import AI, Agent, EditReceipt, RunResult, Runtime, ToolMessage, TrouperError, WhatIf, tool
from trouper.testing import ModelRequest, ScriptedModel, call


def make_clerk(bank: Path) -> Agent:
    """The agent; the bank is a file with a line for each payment."""

    @tool(effect="read_only")
    def invoice(number: str) -> dict[str, object]:
        """Read an invoice.

        Args:
            number: Its number, such as R-7.
        """
        return {"number": number, "due": 120}

    @tool(effect="read_only")
    def balance() -> int:
        """Look the account's balance up."""
        return 500

    @tool(effect="unqueryable_write")
    def pay(number: str, amount: int) -> str:
        """Pay an invoice, or a part of it.

        Args:
            number: The invoice.
            amount: How much.
        """
        with bank.open("a") as file:
            file.write(f"{number} {amount}\n")
        return f"paid {amount}"

    return Agent(
        "clerk", "Pay what is due, as far as the balance allows.", tools=[invoice, balance, pay], model=scripted()
    )


def scripted() -> ScriptedModel:
    """A model that needs no key: it looks both up, and pays as much as there is."""

    def told(request: ModelRequest, tool: str) -> str:
        return next(str(m.content) for m in request.messages if isinstance(m, ToolMessage) and m.name == tool)

    return ScriptedModel(
        [
            call("invoice", number="R-7"),
            call("balance"),
            lambda request: call("pay", number="R-7", amount=min(120, int(told(request, "balance")))),
            lambda request: told(request, "pay"),
        ],
        by_turn=True,
    )


def payment(result: RunResult) -> str:
    """What a run's model wanted to pay."""
    calls = [call for message in result.messages if isinstance(message, AI) for call in message.tool_calls]
    return next(f"{call.name}({call.arguments})" for call in calls if call.name == "pay")


async def main(options: argparse.Namespace) -> int:
    """Run the clerk, fork it, and compare."""
    try:
        async with Runtime.open(options.journal, agents=[make_clerk(options.bank)]) as runtime:
            run = await runtime.submit("clerk", "Pay R-7", command_id="pay-r-7")
            first = await run.wait()
            print(f"as it was   {run.id}  {payment(first)}: {first.output}")
            what_if = WhatIf([EditReceipt("1.0", str(options.balance))], writes="simulate")
            fork = await run.fork(what_if, by="auditor", command_id=f"what-if-{options.balance}")
            second = await fork.wait()
            print(f"what if     {fork.id}  {payment(second)}: {second.output}")
    except TrouperError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"paid, in fact: {options.bank.read_text().strip()}")
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Fork a run with another balance.")
    parser.add_argument("--balance", type=int, default=30, help="what the balance shall be (default: %(default)s)")
    parser.add_argument("--journal", type=Path, default=Path("what_if.db"), help="the file (default: %(default)s)")
    parser.add_argument("--bank", type=Path, default=Path("what_if.bank.txt"), help="payments (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    code = 130
    try:
        code = trio.run(main, read_options())
    except* KeyboardInterrupt:
        print("\ninterrupted; start it again, and it goes on")
    sys.exit(code)
