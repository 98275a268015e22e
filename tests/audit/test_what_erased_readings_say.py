"""What is told of a journal whose content cannot be read is told of it with its content, too, or is marked erased."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
import trio
from tests.audit.sealed_twin import write_sealed_twin
from tests.cli.program import called, objects, ok_called

from trouper.core.events import REGISTRY
from trouper.narration.narrate import Narrator
from trouper_journal import Journal
from trouper_journal.sealing import FileKeyStore

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "runs-1.db"

MARKED: Final = re.compile(r"[ :,(“\"]*(?:of )?\[erased(?:, if there was one)?\][ )”\",;.]*")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every event of the release, sealed, with the keys beside it."""
    target = tmp_path_factory.mktemp("twin") / "runs.db"

    async def write() -> None:
        await write_sealed_twin(GOLDEN, target)

    trio.run(write)
    return target


@pytest.fixture
def without_keys(twin: Path, tmp_path: Path) -> Path:
    """The same file, and no keys."""
    path = tmp_path / twin.name
    path.write_bytes(twin.read_bytes())
    return path


def pieces(line: str) -> list[str]:
    """What a line tells beside what it marks as erased."""
    return [piece for piece in MARKED.split(line) if piece]


def told_in(line: str, whole: str) -> bool:
    """Whether all that a line tells is told in another text, in the same order."""
    return re.search(".*".join(map(re.escape, pieces(line))), whole, re.DOTALL) is not None


async def test_no_sentence_says_more_than_with_the_content(twin: Path, without_keys: Path) -> None:
    kinds: set[str] = set()
    marked: set[str] = set()
    async with (
        Journal.open(twin, registry=REGISTRY, read_only=True, keys=FileKeyStore(f"{twin}.keys")) as full,
        Journal.open(without_keys, registry=REGISTRY, read_only=True) as bare,
    ):
        narrators: dict[str, tuple[Narrator, Narrator]] = {}
        async for record in bare.read_all():
            (opened,) = await full.read_page(record.stream, record.version - 1, 1)
            one, other = narrators.setdefault(record.stream, (Narrator(None), Narrator(None)))
            less, more = one.tell(record, REGISTRY.decode(record)), other.tell(opened, REGISTRY.decode(opened))
            assert less.who in {more.who, "[erased]"}, record.type
            assert told_in(less.text, more.text), f"{record.type}: {less.text!r} is not in {more.text!r}"
            assert '""' not in less.text
            kinds.add(record.type)
            marked |= {record.type} if "[erased" in less.text + less.who else set()
    assert {"approval.decided", "model.responded", "hook.applied"} <= marked
    assert len(kinds) > 40


# What a verb says of the erasure itself, and of what it cannot do because of it.
ABOUT_IT: Final = re.compile(
    r"what is \[erased\] cannot be read here|cannot be computed anew|Its arguments are sealed|the model saw what can be"
    r"|some of what was said cannot be read|alike in kind|what was said before in run|Nothing that can be compared"
    r"|to be summarised: erased"
)
AT_LEAST: Final = re.compile(r"at least \d+ messages?")
RUNS: Final = {"succeeded": 24, "failed": 10, "cancelled": 4, "awaiting_approval": 3, "in_doubt": 2}


def some_runs(path: Path) -> list[str]:
    """Some runs of each kind."""
    left = dict(RUNS)
    chosen: list[str] = []
    for row in objects(ok_called("runs", path, "--all", "-n", "0", "--json")):
        label = str(row["label"]).partition("-")[0]
        if left.get(label, 0):
            left[label] -= 1
            chosen.append(str(row["run"]))
    return chosen


def flat(text: str) -> str:
    """A text without the lines and branches that it was set in."""
    return re.sub(r"[\s│├└─]+", " ", text).strip()


def test_no_verb_says_more_than_with_the_content(twin: Path, without_keys: Path) -> None:
    runs = some_runs(twin)
    verbs = [["approvals"], ["rules"], ["sessions"], ["runs", "--all"], ["tail", "-n", "0", "--no-follow"]]
    verbs += [[verb, run, "--full"] for verb in ("show", "why") for run in runs]
    verbs += [["why", "--spend", run] for run in runs[:4]]
    verbs += [["diff", *pair] for pair in pairwise(runs[:12])]
    marked = 0
    for verb, *rest in verbs:
        more, less = called(verb, twin, *rest), called(verb, without_keys, *rest)
        assert less.returncode in {more.returncode, 0}, (verb, rest)
        whole = flat(more.stdout + more.stderr).replace(str(twin), "JOURNAL")
        for line in (less.stdout + less.stderr).replace(str(without_keys), "JOURNAL").splitlines():
            said = AT_LEAST.sub("", flat(line))
            assert ABOUT_IT.search(said) or told_in(said, whole), f"{verb} {rest}: {said}"
            marked += "[erased" in said
    assert marked > 500


def contradictions(less: object, more: object, where: str = "") -> Iterator[str]:
    """Where JSON without the content says something else than JSON with it."""
    if less in ({"$erased": True}, "history") or where.rpartition(".")[2] in ABOUT_IT_IN_JSON:
        return
    if isinstance(less, dict) and isinstance(more, dict):
        for name, value in less.items():
            yield from contradictions(value, more.get(name), f"{where}.{name}")
    elif isinstance(less, list) and isinstance(more, list) and len(less) == len(more):
        for number, (one, other) in enumerate(zip(less, more, strict=True)):
            yield from contradictions(one, other, f"{where}[{number}]")
    elif less != more and not (isinstance(less, list) and where.rpartition(".")[2] in CUT_SHORT):
        yield f"{where}: {less!r} and not {more!r}"


ABOUT_IT_IN_JSON: Final = {"erased", "recomputed", "withheld", "digest", "binding", "same", "leaf"}
CUT_SHORT: Final = {"messages", "dropped", "left_out", "hooks", "calls", "tool_calls"}
"""Lists that are longer with the content: messages, and what hooks did."""


def test_json_marks_what_it_cannot_say(twin: Path, without_keys: Path) -> None:
    runs = some_runs(twin)
    verbs = [["approvals"], ["rules"], ["sessions"], ["tail", "-n", "0", "--no-follow"]]
    verbs += [[verb, run] for verb in ("show", "why") for run in runs[::2]]
    found = [
        f"{verb} {rest}{each}"
        for verb, *rest in verbs
        for one, other in zip(
            objects(called(verb, without_keys, *rest, "--json").stdout),
            objects(called(verb, twin, *rest, "--json").stdout),
            strict=True,
        )
        for each in contradictions(one, other)
    ]
    assert found == []
