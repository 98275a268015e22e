"""Structured extraction: from a customer's letter to a claim that a program can work with.

Run it with ``python examples/extraction.py``: the model is a script then, so that you need no key. For a model behind
OpenAI's API, or any endpoint that speaks it, set ``OPENAI_API_KEY``, and ``OPENAI_BASE_URL`` if need be, and give
``--model NAME``; ``--letter FILE`` takes another letter.

What the model says is checked against the class `Claim`. Where it does not fit, the model is told what is wrong and
tries again; the script gets it wrong once, on purpose. And a claim counts only once it is filed: until a call of
``file_claim`` has succeeded, the run does not end, whatever the model says.
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated

import attrs
import trio
from pydantic import Field

from trouper import Agent, Model, ModelRefused, RunError, Runtime, requires_receipt, tool
from trouper.events import OutputRejected
from trouper.testing import ScriptedModel, call

LETTER = """\
Dear all, on the 3rd of March 2026 the parcel with your kettle came, and it was broken. The handle had come off, and
my cat has been afraid of it since. I paid 39.90 euros and want them back. Order K-1017. Yours, Rosa Lind
"""


class Kind(Enum):
    """What went wrong."""

    DAMAGED = "damaged"
    MISSING = "missing"
    LATE = "late"


@attrs.frozen
class Claim:
    """A customer's claim."""

    customer: str
    order: Annotated[str, Field(pattern=r"^[A-Z]-\d+$", description="Order number, such as A-1")]
    kind: Kind
    noticed: Annotated[date, Field(description="The day on which it was noticed")]
    amount: Annotated[float, Field(ge=0, description="What the customer wants back, in euros")]


@tool(effect="idempotent_write")
def file_claim(order: str) -> str:
    """Open a file for a claim, and learn its number.

    Args:
        order: The order that it is about.
    """
    return f"file {order}/1"


def make_clerk(model: Model) -> Agent:
    """The agent."""
    instructions = "You read letters of customers. File the claim, then say what it is."
    return Agent(
        "clerk",
        instructions,
        tools=[file_claim],
        model=model,
        output=Claim,
        completion=[requires_receipt("file_claim")],
    )


def scripted() -> Model:
    """A model that needs no key: it gets the amount and the order wrong, and is told so."""
    rest: dict[str, str] = {"customer": "Rosa Lind", "kind": "damaged", "noticed": "2026-03-03"}
    wrong = call("final_result", order="1017", amount="39.90 euros", **rest)
    right = call("final_result", order="K-1017", amount=39.9, **rest)
    return ScriptedModel([call("file_claim", order="K-1017"), wrong, right], by_turn=True)


def real(name: str) -> Model:
    """A model behind an endpoint; key and address come from the environment."""
    from trouper_adapters.openai import OpenAIModel

    return OpenAIModel(name)


async def main(options: argparse.Namespace) -> int:
    """Open the runtime, ask, print the claim."""
    clerk = make_clerk(real(options.model) if options.model else scripted())
    try:
        letter = options.letter.read_text() if options.letter else LETTER
    except OSError as error:
        print(f"cannot read the letter: {error}", file=sys.stderr)
        return 2
    async with Runtime.open(options.journal, agents=[clerk]) as runtime:
        run = await runtime.submit("clerk", letter, command_id=options.command_id)
        failed = 0
        try:
            result = await run.wait()
        except ModelRefused as refused:
            print(f"the model refused: {refused}", file=sys.stderr)
            failed = 1
        except RunError as error:  # OutputInvalid and RunIncomplete, when the rounds are used up, are such
            print(error, file=sys.stderr)
            failed = 1
        for _, event in await run.events():
            if isinstance(event, OutputRejected):
                print(f"sent back: {event.text}\n")
        if failed:
            return failed
    claim = result.output
    assert isinstance(claim, Claim)
    print(claim)
    what = f"{claim.kind.value} on {claim.noticed:%d %B}"
    print(f"{claim.customer} wants {claim.amount:.2f} euros back for {claim.order}, {what}")
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="From a customer's letter to a claim.")
    parser.add_argument("--letter", type=Path, metavar="FILE", help="the letter (default: one that comes with it)")
    parser.add_argument("--model", metavar="NAME", help="a model of OPENAI_BASE_URL; without it the model is a script")
    parser.add_argument("--journal", type=Path, default=Path("claims.db"), help="the file (default: %(default)s)")
    parser.add_argument("--command-id", default="letter-001", help="names the request (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    code = 130
    try:
        code = trio.run(main, read_options())
    except* KeyboardInterrupt:
        print("\ninterrupted; start it again, and it goes on")
    sys.exit(code)
