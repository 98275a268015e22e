"""Sealed runs are explained to whoever has the keys; to others, and once the key is destroyed, as far as facts go."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio
from tests.cli.program import ok_called, one_object

from trouper import REGISTRY, Agent, Principal, Runtime, tool
from trouper.audit import AnswerWhy, Comparison, Explainer, compare, sound
from trouper.runtime.erasing import erase_run
from trouper.testing import ScriptedModel, call
from trouper_journal import ERASED, Journal
from trouper_journal.sealing import FileKeyStore


@tool(effect="idempotent_write")
async def note(text: str) -> str:
    """Take a note."""
    return f"noted {text}"


async def played(path: Path, *, erased: bool) -> str:
    """A sealed run, maybe erased since."""
    model = ScriptedModel([call("note", text="for Amelia"), "Done, Amelia."])
    keys = FileKeyStore(path.with_name("keys"))
    async with Runtime.open(path, agents=[Agent("desk", tools=[note], model=model)], keys=keys) as runtime:
        run = await runtime.submit("desk", "I am Amelia.")
        await run.wait()
        if erased:
            await erase_run(runtime.journal, run.id, by=Principal("maria"), reason="asked")
        return run.id


async def explained(path: Path, run: str, *, with_keys: bool) -> tuple[AnswerWhy, Comparison]:
    keys = FileKeyStore(path.with_name("keys")) if with_keys else None
    async with Journal.open(path, registry=REGISTRY, keys=keys) as journal:
        return await Explainer(journal).answer(run), await compare(journal, run, run)


def test_with_its_keys_a_sealed_run_is_explained_like_any_other(tmp_path: Path) -> None:
    run = trio.run(partial(played, tmp_path / "j.db", erased=False))
    why, comparison = trio.run(partial(explained, tmp_path / "j.db", run, with_keys=True))
    assert (why.output, why.origin.withheld, sound(why), comparison.same) == ("Done, Amelia.", None, True, True)
    assert [request.check and request.check.digest for request in why.model.requests] == ["matches"]


def test_without_them_or_once_erased_the_facts_are_told_and_nothing_is_contradicted(tmp_path: Path) -> None:
    run = trio.run(partial(played, tmp_path / "j.db", erased=True))
    for with_keys in (False, True):
        why, comparison = trio.run(partial(explained, tmp_path / "j.db", run, with_keys=with_keys))
        assert (why.output, sound(why), comparison.same, comparison.left.erased) == (ERASED, True, True, True)
        assert why.origin.withheld is not None
        assert [call.outcome for call in why.calls] == ["ok"]
    shown = ok_called("why", tmp_path / "j.db", run)
    assert "Amelia" not in shown
    assert f"run of desk {run}  succeeded  [erased]" in shown
    assert "what is [erased] cannot be read here: " in shown
    assert one_object(ok_called("why", tmp_path / "j.db", run, "--json"))["output"] == {"$erased": True}
