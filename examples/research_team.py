"""A lead who puts researchers to work side by side, under one budget for all of them.

Run it with ``python examples/research_team.py``: the model is a script then, so that you need no key. For one behind
OpenAI's API, or any endpoint that speaks it, set ``OPENAI_API_KEY``, and ``OPENAI_BASE_URL`` if need be, and give
``--model NAME``.

Each researcher is a run of its own; what happens in any of them is printed as it happens. Interrupt or kill the program
while they search, and start it again: it tells what is in the journal already, and goes on from there. What all of
them may spend together is ``--calls`` and ``--tokens``; where that is used up, the lead is asked once more, and writes
of what it has. ``trouper runs research.db --all`` shows the tree.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import trio

from trouper import (
    AI,
    Agent,
    Human,
    Limits,
    Model,
    Run,
    RunError,
    RunResult,
    Runtime,
    StateKey,
    ToolMessage,
    TrouperError,
    tool,
)
from trouper.events import ActionPlanned, ActionReceipted, BudgetRefused
from trouper.streaming import Ended, Recorded, Superseded
from trouper.testing import ModelRequest, ScriptedModel, call, calls

ARCHIVE = {
    "otters": [("otters.txt", "Otters sleep afloat and hold hands.")],
    "herons": [("herons.txt", "Herons stand still for an hour."), ("fishers.txt", "Herons fish at dawn.")],
    "beavers": [("beavers.txt", "Beavers hold the water back for all of them.")],
}


@dataclass
class Question:
    """What a researcher is asked."""

    topic: str


@dataclass
class Note:
    """What a researcher hands in."""

    topic: str
    findings: list[str]
    sources: list[str]


@dataclass
class Report:
    """What the lead hands in."""

    title: str
    findings: list[str]
    sources: list[str]


def make_team(lead: Model, researcher: Model, limits: Limits, pace: float) -> Agent:
    """The lead, and below it the researcher whom it can call as often as the budget allows."""

    @tool(effect="read_only")
    async def search(topic: str) -> list[dict[str, str]]:
        """Search the archive, which has pages about animals at a river.

        Args:
            topic: One animal, in the plural, such as otters.
        """
        await trio.sleep(pace)
        return [{"source": source, "text": text} for source, text in ARCHIVE.get(topic.lower(), [])]

    one = Agent(
        "researcher",
        "Search the archive for the topic, once, and hand in what it says, with its sources.",
        description="Looks one topic up in the archive.",
        tools=[search],
        model=researcher,
        output=Note,
    )
    return Agent(
        "lead",
        "Have each animal that is asked about researched, all in one go; then hand in a report of what was found.",
        tools=[one.as_tool("research", input=Question, output_key="notes")],
        state={"notes": StateKey(list[Note], reducer="append")},
        output=Report,
        model=lead,
        # They hold for the lead and for all whom it calls.
        limits=limits,
    )


def scripted() -> tuple[Model, Model]:
    """Models that need no key: one that asks for three topics and sums up, and one that searches and hands in."""

    def told(request: ModelRequest) -> list[object]:
        answers = [each for each in request.messages if isinstance(each, ToolMessage) and each.status == "ok"]
        return [json.loads(str(each.content)) for each in answers]

    def topic_of(request: ModelRequest) -> str:
        asked = next(str(each.content) for each in request.messages if isinstance(each, Human))
        return str(json.loads(asked)["topic"])

    def hand_in(request: ModelRequest) -> str:
        (pages,) = told(request)
        assert isinstance(pages, list)
        note = {"findings": [page["text"] for page in pages], "sources": [page["source"] for page in pages]}
        return json.dumps({"topic": topic_of(request), **note})

    def sum_up(request: ModelRequest) -> str:
        notes = [note for note in told(request) if isinstance(note, dict)]
        rest = {key: [each for note in notes for each in note[key]] for key in ("findings", "sources")}
        return json.dumps({"title": f"Life at the river, in {len(notes)} notes", **rest})

    def look_up(request: ModelRequest) -> AI:
        return call("search", topic=topic_of(request))

    wishes = calls(*(call("research", input={"topic": topic}) for topic in ARCHIVE))
    # The script speaks of outputs as a model does that knows schemas, so that no tool stands for them.
    lead = ScriptedModel([wishes, sum_up], by_turn=True, output_support="with_tools")
    return lead, ScriptedModel([look_up, hand_in], by_turn=True, output_support="with_tools")


def real(name: str) -> tuple[Model, Model]:
    """A model behind an endpoint, for both; key and address come from the environment."""
    from trouper_adapters.openai import OpenAIModel

    model = OpenAIModel(name)
    return model, model


class Progress:
    """Tells what happens in the whole tree, in one line each."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._names: dict[str, str] = {}

    def name(self, run: str) -> str:
        """Who it is: the lead, or a researcher by the place of its call."""
        return "lead" if run == self._root else f"researcher {run.removeprefix(self._root)}"

    def line(self, event: object) -> str | None:
        """What to print of something that the stream brought."""
        match event:
            case Recorded(run=run, event=ActionPlanned(tool=tool, arguments=arguments)):
                return f"{self.name(run)} calls {tool}({json.dumps(arguments)})"
            case Recorded(run=run, event=ActionReceipted(action=action, outcome=outcome)):
                return f"{self.name(run)} has the answer to {action}: {outcome}"
            case Recorded(run=run, event=BudgetRefused() as refused):
                return f"{self.name(run)} may not go on: {refused.spent} of {refused.limit} {refused.resource} are used"
            case Superseded(run=run, index=index):
                return f"{self.name(run)} asks again: what came of request {index} is void"
            case Ended(run=run, status=status):
                return f"{self.name(run)} {status}"
        return None


async def watch(run: Run) -> None:
    """Print what happens until the run is over."""
    progress = Progress(run.id)
    async with run.stream(below=True) as stream:
        async for event in stream:
            if (line := progress.line(event)) is not None:
                print(line, flush=True)


def print_report(result: RunResult) -> None:
    """The report, and what it cost."""
    report = result.output
    print(f"\n{report.title}")
    for finding in report.findings:
        print(f"- {finding}")
    print(f"({', '.join(report.sources)})\n")
    print(f"notes on {', '.join(note.topic for note in result.state['notes']) or 'nothing'}")
    for child in result.children:
        name = child.run.removeprefix(result.run)
        print(f"{name}: {child.spent.model_calls} model calls, {child.spent.tokens} tokens")
    print(f"all together: {result.spent.model_calls} model calls, {result.spent.tokens} tokens")


async def main(options: argparse.Namespace) -> int:
    """Open the runtime, ask, tell what happens, print the report."""
    lead, researcher = real(options.model) if options.model else scripted()
    limits = Limits(max_model_calls=options.calls, max_tokens=options.tokens, on_limit="finish")
    team = make_team(lead, researcher, limits, options.pace)
    failure: RunError | None = None
    try:
        async with Runtime.open(options.journal, agents=[team]) as runtime:
            run = await runtime.submit("lead", options.request, command_id=options.command_id)
            print(f"run {run.id}{', asked before' if run.repeated else ''}", flush=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch, run)
                try:
                    result = await run.wait()
                except RunError as error:
                    failure = error  # raised outside of the nursery, which would wrap it in a group
            if failure is not None:
                raise failure
    except TrouperError as error:
        print(error, file=sys.stderr)
        return 1
    print_report(result)
    return 0


def read_options() -> argparse.Namespace:
    """The command line."""
    asked = "Report on otters, herons and beavers"
    parser = argparse.ArgumentParser(description="A lead and its researchers, under one budget.")
    parser.add_argument("request", nargs="?", default=asked, help="what to ask (default: %(default)s)")
    parser.add_argument("--model", metavar="NAME", help="a model of OPENAI_BASE_URL; without it the model is a script")
    parser.add_argument("--calls", type=int, default=20, help="model calls of all together (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=100_000, help="tokens of all together (default: %(default)s)")
    parser.add_argument("--pace", type=float, default=0.5, help="seconds that a search takes (default: %(default)s)")
    parser.add_argument("--journal", type=Path, default=Path("research.db"), help="the file (default: %(default)s)")
    parser.add_argument("--command-id", default="request-001", help="names the request (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    code = 130
    try:
        code = trio.run(main, read_options())
    except* KeyboardInterrupt:
        print("\ninterrupted; start it again, and it goes on")
    sys.exit(code)
