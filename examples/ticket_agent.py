"""An agent that closes a ticket, and asks you first.

Run it with ``python examples/ticket_agent.py``: the model is a script then, so that you need no key. For a model behind
OpenAI's API, or any endpoint that speaks it, set ``OPENAI_API_KEY``, and ``OPENAI_BASE_URL`` if need be, and give
``--model NAME``.

Interrupt it while it asks you, and start it again: it goes on where it was. Decide from another terminal instead, and
it goes on as well: ``trouper approvals ticket.db`` tells what to type.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
from pathlib import Path

import trio

from trouper import (
    Agent,
    ApprovalError,
    Model,
    PendingApproval,
    RunError,
    RunResult,
    Runtime,
    ToolContext,
    ToolMessage,
    TrouperError,
    tool,
)
from trouper.testing import ModelRequest, ScriptedModel, call


class Crm:
    """A ticket system, in a file. It does nothing twice under one key."""

    def __init__(self, file: Path, token: str) -> None:
        self._file = file
        self._token = token

    def close(self, ticket: str, *, token: str, idempotency_key: str) -> str:
        """Close a ticket."""
        if token != self._token:
            raise PermissionError("the ticket system does not know this token")
        closed: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}
        if idempotency_key in closed:
            return f"{ticket} was closed before"
        self._file.write_text(json.dumps({**closed, idempotency_key: ticket}))
        return f"{ticket} is closed"


def make_desk(model: Model, crm: Crm) -> Agent:
    """The agent."""

    @tool(effect="read_only")
    def lookup(ticket: str) -> dict[str, str]:
        """Read a ticket.

        Args:
            ticket: Ticket number, such as INC-001.
        """
        return {"ticket": ticket, "subject": "The printer is out of paper", "status": "refilled, waiting to be closed"}

    @tool(effect="idempotent_write", requires_approval=True, secrets={"token": "crm/api-token"}, timeout=10)
    def close_ticket(ticket: str, *, token: str, ctx: ToolContext) -> str:
        """Close a ticket.

        Args:
            ticket: Ticket number, such as INC-001.
            token: Opens the ticket system; the model never sees it.
            ctx: The call; its effect key stays the same however often it is tried.
        """
        return crm.close(ticket, token=token, idempotency_key=ctx.effect_key)

    instructions = "Resolve the ticket: look it up, close it if nothing is left to be done, and say what you did."
    return Agent("desk", instructions, tools=[lookup, close_ticket], model=model)


def scripted() -> Model:
    """A model that needs no key: it looks the ticket up, wants to close it, and says what came of it."""

    def last_word(request: ModelRequest) -> str:
        (told,) = [message for message in request.messages if message.id.endswith("/1.0")]
        assert isinstance(told, ToolMessage)
        return "INC-001 is closed." if told.status == "ok" else f"INC-001 stays open. {told.content}"

    return ScriptedModel(
        [call("lookup", ticket="INC-001"), call("close_ticket", ticket="INC-001"), last_word], by_turn=True
    )


def real(name: str) -> Model:
    """A model behind an endpoint; key and address come from the environment."""
    from trouper_adapters.openai import OpenAIModel

    return OpenAIModel(name)


async def ask_person(runtime: Runtime, options: argparse.Namespace) -> None:
    """Put each call that waits for approval to whoever sits at the terminal."""
    async with runtime.journal.news() as news:
        while True:
            for pending in await runtime.approvals():
                agreed = options.yes or await agrees(pending)
                if agreed is None:
                    decide = f"trouper approve {options.journal} {pending.action} --as YOU"
                    print(f"\nNobody answers here. From any terminal: {decide}", flush=True)
                    return
                try:
                    if agreed:
                        await runtime.approve(pending.action, by="terminal")
                    else:
                        await runtime.deny(pending.action, by="terminal", reason="not now")
                except ApprovalError as error:
                    print(error)  # somebody else was faster
            await news.wait()


async def agrees(pending: PendingApproval) -> bool | None:
    """Ask; None where nobody is there to answer.

    JSON shows control characters as escapes, so that what the model wrote cannot disguise itself.
    """
    print(
        f"{pending.agent} wants {pending.tool}({json.dumps(dict(pending.arguments))}). Allow it? [y/N] ",
        end="",
        flush=True,
    )
    # A thread that waits in input() could not be left behind when somebody else decides, or on Ctrl-C.
    await trio.to_thread.run_sync(select.select, [sys.stdin], [], [], abandon_on_cancel=True)
    answer = sys.stdin.readline()
    if not answer:
        return None
    return answer.strip().lower() in {"y", "yes"}


async def ask_agent(runtime: Runtime, options: argparse.Namespace) -> RunResult:
    """Ask the agent, and see to its questions until it has answered."""
    run = await runtime.submit("desk", options.request, command_id=options.command_id)
    print(f"run {run.id}{', asked before' if run.repeated else ''}; see: trouper show {options.journal} {run.id}")
    failure: RunError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_person, runtime, options)
        try:
            result = await run.wait()
        except RunError as error:
            failure = error  # raised outside of the nursery, which would wrap it in a group
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result


async def main(options: argparse.Namespace) -> int:
    """Open the runtime, ask, print the answer."""
    token = "a-token-for-the-example"  # noqa: S105 -- opens nothing
    crm = Crm(options.journal.with_suffix(".crm.json"), token)
    desk = make_desk(real(options.model) if options.model else scripted(), crm)
    try:
        async with Runtime.open(options.journal, agents=[desk], secrets={"crm/api-token": token}) as runtime:
            result = await ask_agent(runtime, options)
    except TrouperError as error:
        print(error, file=sys.stderr)
        return 1
    print(result.output)
    print(f"{result.steps} steps, {result.usage.input_tokens} tokens in, {result.usage.output_tokens} out")
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="An agent that closes a ticket, and asks you first.")
    parser.add_argument("request", nargs="?", default="Close INC-001", help="what to ask (default: %(default)s)")
    parser.add_argument("--model", metavar="NAME", help="a model of OPENAI_BASE_URL; without it the model is a script")
    parser.add_argument("--journal", type=Path, default=Path("ticket.db"), help="the file (default: %(default)s)")
    parser.add_argument("--command-id", default="request-001", help="names the request (default: %(default)s)")
    parser.add_argument("--yes", action="store_true", help="approve without asking")
    return parser.parse_args()


if __name__ == "__main__":
    code = 130
    try:
        code = trio.run(main, read_options())
    except* KeyboardInterrupt:
        print("\ninterrupted; start it again, and it goes on")
    sys.exit(code)
