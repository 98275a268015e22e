"""What a model saw is rebuilt to the letter: held against what models of all golden scenes were really sent."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.golden.company import CompanyModel, Summariser
from tests.golden.desk import GoldenModel
from tests.golden.make_golden_runs import write_golden_runs

from trouper import REGISTRY, Message, ModelReply, ToolSpec
from trouper.audit.seen import Request
from trouper.audit.summaries import SummaryWhy
from trouper.audit.trace import read_trace
from trouper.audit.why import Explainer
from trouper.core.exchange import ModelConfig
from trouper_journal import Journal

Sent = tuple[tuple[Message, ...], tuple[str, ...], str | None]
Generate = Callable[..., Coroutine[Any, Any, ModelReply]]


def spied(generate: Generate, sent: list[Sent]) -> Generate:
    """A model's method that notes what it is given."""

    async def agenerate(
        self: object, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), config: ModelConfig | None = None
    ) -> ModelReply:
        choice = None if config is None else config.tool_choice
        sent.append((tuple(messages), tuple(tool.name for tool in tools), choice))
        return await generate(self, messages, tools, config)

    return agenerate


async def rebuilt(journal: Journal) -> list[Request]:
    """Every request of every run."""
    explainer = Explainer(journal)
    found: list[Request] = []
    async for head in journal.streams(prefix="run/"):
        run = head.stream.removeprefix("run/")
        last = (await read_trace(journal, run)).focus_index
        for index in range(last + 1):
            found += (await explainer.model_call(run, index)).requests
    return found


async def summaries_of(journal: Journal) -> list[SummaryWhy]:
    """Every request for a summary."""
    runs = [head.stream.removeprefix("run/") async for head in journal.streams(prefix="run/")]
    return [summary for run in runs for summary in (await Explainer(journal).answer(run)).origin.summaries]


async def test_every_request_is_rebuilt_as_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Sent] = []
    asked: list[Sent] = []
    monkeypatch.setattr(Summariser, "agenerate", spied(Summariser.agenerate, asked))
    for model in (CompanyModel, GoldenModel):
        monkeypatch.setattr(model, "agenerate", spied(model.agenerate, sent))
    await write_golden_runs(tmp_path / "golden.db")
    async with Journal.open(tmp_path / "golden.db", registry=REGISTRY) as journal:
        requests = await rebuilt(journal)
        summaries = await summaries_of(journal)
    wire = [each for each in requests if each.record is not None]
    assert all(each.check is not None and each.check.ok for each in wire)
    # What hooks answered was sent to nobody.
    assert len(wire) < len(requests)
    made = [
        (
            tuple(seen.message for seen in each.messages),
            tuple(tool.name for tool in each.tools),
            each.settings.get("tool_choice"),
        )
        for each in wire
    ]
    exact = [request for request, each in zip(made, wire, strict=True) if each.exact]
    assert len(exact) > 80
    missing = [each for each in exact if each not in sent]
    assert missing == []
    # The words of a schema in the instructions are not kept; all that was said is.
    told = [messages[1:] for messages, _, _ in sent]
    assert all(messages[1:] in told for messages, _, _ in made if (messages, _, _) not in exact)
    # What a model was asked to summarise, too.
    assert [summary.messages for summary in summaries] == [messages for messages, _, _ in asked]
    assert {summary.digest for summary in summaries} == {"matches"}
