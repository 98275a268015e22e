"""A conversation that remembers, however long it becomes: what is too old for the model is summarised.

Run it with ``python examples/chat_session.py`` and type; an empty line ends it. Start it again: it goes on where it
was. The model is a script, so that you need no key. For a model behind OpenAI's API, or any endpoint that speaks it,
set ``OPENAI_API_KEY``, and ``OPENAI_BASE_URL`` if need be, and give ``--model NAME``.

``trouper sessions chat.db`` lists the conversations; ``trouper send chat.db me TEXT`` talks from another terminal.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path

import trio

from trouper import Agent, History, Human, Model, RunError, Runtime, Session, TrouperError
from trouper.conversation import text as text_of
from trouper.testing import ModelRequest, ScriptedModel

LIMIT = 200  # tokens, so that compaction shows soon; a real one takes a share of the model's context


def chatter(request: ModelRequest) -> str:
    """Say how much of the conversation is seen."""
    said = [text_of(message.content) for message in request.messages if isinstance(message, Human)]
    summary = " and a summary" if said[0].startswith("[Summary") else ""
    return f"You said {said[-1]!r}. I see {len(request.messages) - 1} messages{summary}."


def summariser(request: ModelRequest) -> str:
    """Keep what people said, and nothing of the answers."""
    lines = text_of(request.messages[-1].content).splitlines()
    said = [line for heading, line in pairwise(lines) if heading.startswith("=") and "Human" in heading]
    earlier = [line.removeprefix("They said: ") for line in lines if line.startswith("They said: ")]
    return "They said: " + "; ".join([*earlier, *(each for each in said if not each.startswith("[Summary"))])


def make_agent(name: str | None) -> Agent:
    """The agent; with a script for a model where no name is given."""
    model: Model
    small: Model
    if name is None:
        model, small = ScriptedModel([chatter] * 1000), ScriptedModel([summariser] * 1000, name="summariser")
    else:
        from trouper_adapters.openai import OpenAIModel

        model = small = OpenAIModel(name)
    return Agent("chat", "Be brief and kind.", model=model, history=History(LIMIT, summarise=small))


async def say(session: Session, text: str) -> None:
    """Send a message, and print the answer."""
    run = await session.send(text)
    try:
        print((await run.wait()).output, flush=True)
    except RunError as error:
        print(error, file=sys.stderr, flush=True)


async def main(options: argparse.Namespace) -> int:
    """Open the runtime and talk until nothing more is said."""
    try:
        async with Runtime.open(options.journal, agents=[make_agent(options.model)]) as runtime:
            session = runtime.session("chat", options.session)
            if before := len(await session.history()):
                print(f"(session {session.id} goes on: {before} messages before)", flush=True)
            for text in options.say:
                await say(session, text)
            while not options.say:
                print("> ", end="", flush=True)
                line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
                if not line.strip():
                    break
                await say(session, line.strip())
            window = await session.window()
            print(
                f"({len(await session.history())} messages in all, {len(window)} of them are shown to the model next)"
            )
    except TrouperError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="A conversation that remembers.")
    parser.add_argument("--model", metavar="NAME", help="a model of OPENAI_BASE_URL; without it the model is a script")
    parser.add_argument("--journal", type=Path, default=Path("chat.db"), help="the file (default: %(default)s)")
    parser.add_argument("--session", default="me", help="which conversation (default: %(default)s)")
    parser.add_argument("--say", action="append", default=[], metavar="TEXT", help="say this instead of asking you")
    return parser.parse_args()


if __name__ == "__main__":
    code = 130
    try:
        code = trio.run(main, read_options())
    except* KeyboardInterrupt:
        print("\ninterrupted; start it again, and it goes on")
    sys.exit(code)
