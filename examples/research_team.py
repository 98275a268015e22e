"""A research team: an editor has several researchers work side by side, on one budget, and a person publishes.

Run it with ``python examples/research_team.py "rain, wind, snow"``. Each topic becomes a run of its own below the
editor's, all of them together may make so many model calls (``--max-model-calls``), and publishing waits for somebody:
the program asks you, or decide from another terminal with ``trouper approvals team.db`` and ``trouper approve``.

Kill it at any moment and start it again with the same topics: it is the same run, no researcher begins twice, and no
model is asked again for what is in the journal. ``trouper runs team.db --all`` shows the tree.

The models are scripts, so that you need no key. For a model behind OpenAI's API, or any endpoint that speaks it, set
``OPENAI_API_KEY``, and ``OPENAI_BASE_URL`` if need be, and give ``--model NAME``.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import trio

from trouper import AI, Agent, Limits, Model, PendingApproval, Runtime, StateKey, TrouperError, tool
from trouper.core.conversation import text as text_of
from trouper.testing import ModelRequest, ScriptedModel, call, calls

ARCHIVE = {
    "rain": "Rain fell on 117 days of the year.",
    "wind": "The strongest gust of the year was measured in February.",
    "snow": "Snow lay on 9 days.",
}


@dataclass
class Topic:
    """What to find out."""

    name: str


@tool(effect="read_only")
def search(topic: str) -> str:
    """Search the archive.

    Args:
        topic: One word.
    """
    return ARCHIVE.get(topic, f"Nothing is known about {topic}.")


@tool(effect="idempotent_write", requires_approval=True)
def publish(text: str) -> str:
    """Publish a text under the paper's name."""
    return f"published {len(text)} characters"


# ---- the scripts that stand for models


def look_up(request: ModelRequest) -> AI:
    """The researcher, first."""
    asked = json.loads(text_of(request.messages[-1].content))
    return call("search", topic=asked["name"])


def report(request: ModelRequest) -> str:
    """The researcher, then."""
    return text_of(request.messages[-1].content)


def delegate(request: ModelRequest) -> AI:
    """The editor, first."""
    topics = text_of(request.messages[-1].content).split(", ")
    return calls(*(call("researcher", input={"name": topic}) for topic in topics))


def write(request: ModelRequest) -> AI:
    """The editor, with what was found."""
    found = [text_of(message.content) for message in request.messages if message.role == "tool"]
    return call("publish", text=" ".join(found))


def finish(request: ModelRequest) -> str:
    """The editor, at last."""
    return f"Done: {text_of(request.messages[-1].content)}"


def make_team(name: str | None, max_model_calls: int) -> Agent:
    """The editor, with the researcher among its tools."""
    model: Model
    small: Model
    if name is None:
        model = ScriptedModel([delegate, write, finish], by_turn=True, name="editor")
        small = ScriptedModel([look_up, report], by_turn=True, name="researcher")
    else:
        from trouper_adapters.openai import OpenAIModel

        model = small = OpenAIModel(name)
    researcher = Agent(
        "researcher",
        "Find out about the topic with the archive, and report it in one sentence.",
        description="Finds out about one topic in the archive.",
        tools=[search],
        model=small,
        limits=Limits(max_steps=8),
    )
    return Agent(
        "editor",
        "Have each topic researched, all of them at once. Write a short text of what was found, and publish it.",
        tools=[researcher.as_tool(input=Topic, output_key="notes"), publish],
        state={"notes": StateKey(list[str], reducer="append")},
        model=model,
        # What the researchers spend counts, too.
        limits=Limits(max_steps=20, max_model_calls=max_model_calls),
    )


# ---- the program


async def ask(pending: PendingApproval) -> bool:
    """Ask whoever sits here."""
    print(f"{' > '.join(pending.path)} wants to {pending.tool}: {pending.arguments['text']!s}", flush=True)
    print("publish? [y/n] ", end="", flush=True)
    answer = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return str(answer).strip().lower().startswith("y")


async def decide(runtime: Runtime) -> None:
    """Be the person who is asked, as long as the run goes on."""
    async with runtime.journal.news() as news:
        while True:
            for pending in await runtime.approvals():
                if await ask(pending):
                    await runtime.approve(pending.action, by="editor-in-chief")
                else:
                    await runtime.deny(pending.action, by="editor-in-chief", reason="not today")
            await news.wait()


async def main(options: argparse.Namespace) -> int:
    """Have the topics researched and the text published."""
    team = make_team(options.model, options.max_model_calls)
    code = 0
    try:
        async with Runtime.open(options.journal, agents=[team]) as runtime, trio.open_nursery() as nursery:
            run = await runtime.submit("editor", options.topics, command_id=options.topics)
            nursery.start_soon(decide, runtime)
            result = await run.wait()
            nursery.cancel_scope.cancel()
            for child in result.children:
                print(f"{child.agent} {child.run.partition('~')[2]}: {child.status}, {child.spent.model_calls} calls")
            print(f"notes: {len(result.state['notes'])}", flush=True)
            print(result.output, flush=True)
    except* TrouperError as errors:
        for error in errors.exceptions:
            print(error, file=sys.stderr)
        code = 1
    return code


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="A research team with one budget.")
    parser.add_argument("topics", nargs="?", default="rain, wind, snow", help="what about (default: %(default)s)")
    parser.add_argument("--model", metavar="NAME", help="a model of OPENAI_BASE_URL; without it the models are scripts")
    parser.add_argument("--journal", type=Path, default=Path("team.db"), help="the file (default: %(default)s)")
    parser.add_argument("--max-model-calls", type=int, default=30, help="for all together (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    code = 130
    try:
        code = trio.run(main, read_options())
    except* KeyboardInterrupt:
        print("\ninterrupted; start it again, and it goes on")
    sys.exit(code)
