"""Journals of which every digest is right, and whose history somebody has made up: no command ends in disorder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from tests.cli.program import called, complaint
from tests.golden.found import FOLDER

from trouper import REGISTRY
from trouper.cli.codes import Exit
from trouper_journal import Journal, JournalError, Write

GOLDEN = FOLDER / "runs-1.db"


@attrs.frozen
class Said:
    """An event, with what stood around it."""

    stream: str
    event: object
    label: str | None
    wake_at: int | None


@cache
def recorded() -> tuple[Said, ...]:
    async def main() -> tuple[Said, ...]:
        async with Journal.open(GOLDEN, registry=REGISTRY, read_only=True) as journal:
            return tuple(
                [
                    Said(record.stream, REGISTRY.decode(record), record.label, record.wake_at)
                    async for record in journal.read_all()
                ]
            )

    return trio.run(main)


def of_some_runs(rng: random.Random) -> list[Said]:
    """The events of three runs, with those of their sub-agents, and all that are of no run."""
    streams = sorted({said.stream for said in recorded() if said.stream.startswith("run/")})
    kept = rng.sample([stream for stream in streams if "~" not in stream], 3)
    return [said for said in recorded() if not said.stream.startswith("run/") or said.stream.partition("~")[0] in kept]


def out_of_order(rng: random.Random, events: list[Said]) -> list[Said]:
    """Events are left out, change places, come twice, or come in a stream of another kind."""
    events = list(events)
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(events)), rng.randrange(len(events))
        kind = rng.random()
        if kind < 0.3:
            del events[at]
        elif kind < 0.55:
            events[at], events[other] = events[other], events[at]
        elif kind < 0.75:
            events.insert(other, events[at])
        else:
            events[at] = attrs.evolve(events[at], stream=events[other].stream)
    return events


NUMBERS = [-1, 0, 2**63, 10**30, -(10**30)]
TEXTS = ["", "\x1b[2J\u202e", "x" * 70_000, "\ud800", "a/b~1.2", ".", "1.0", "99.99"]
BYTES = [b"", b"x" * 64]


def another(rng: random.Random, value: Any, *, deep: int = 3) -> object:
    """The value with one field, at any depth, that is another one."""
    if isinstance(value, bool):
        return not value
    for kind, others in ((int, NUMBERS), (str, TEXTS), (bytes, BYTES)):
        if type(value) is kind:
            return rng.choice(others)
    if value is None and rng.random() < 0.3:
        return rng.choice([10**30, "", -1])
    if deep and attrs.has(type(value)):
        fields = list(attrs.fields(type(value)))
        rng.shuffle(fields)
        for field in fields:
            before = getattr(value, field.name)
            after = another(rng, before, deep=deep - 1)
            if after is not before:
                try:
                    return attrs.evolve(value, **{field.name.lstrip("_"): after})
                except (TypeError, ValueError):
                    continue
    return value


def with_other_values(rng: random.Random, events: list[Said]) -> list[Said]:
    """Some events have values that nobody would have thought of."""
    events = list(events)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(events))
        events[at] = attrs.evolve(events[at], event=another(rng, events[at].event))
    return events


async def write(path: Path, events: Sequence[Said]) -> list[str]:
    """Make the journal; ids of its runs."""
    runs: dict[str, None] = {}
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("nobody") as fence:
        for said in events:
            try:
                await journal.commit(
                    [Write(said.stream, [said.event], label=said.label, wake_at=said.wake_at)], fence=fence
                )
            except JournalError:
                continue  # what cannot be stored at all
            if said.stream.startswith("run/"):
                runs[said.stream.removeprefix("run/")] = None
    return sorted(runs)


def commands(path: Path, runs: Sequence[str]) -> list[list[str | Path]]:
    of_all: list[list[str]] = [
        ["verify", "--jobs", "1"],
        ["doctor"],
        ["runs", "--all"],
        ["replay", "--jobs", "1"],
        ["spend"],
        ["tail", "--no-follow", "-n", "10000"],
        ["tail", "--no-follow", "-n", "10000", "--json"],
        ["export"],
        ["sessions"],
        ["approvals"],
        ["rules"],
    ]
    of_one = [["show"], ["show", "--json"], ["why"], ["why", "--spend"], ["why", "--json"], ["replay"]]
    found: list[list[str | Path]] = [[name, path, *rest] for name, *rest in of_all]
    for run in runs[:3]:
        found += [[name, path, run, *rest] for name, *rest in of_one]
        found.append(["export", path, "--run", run, "--format", "html", "--no-verify"])
    if len(runs) > 1:
        found += [["diff", path, runs[0], runs[1]], ["diff", path, runs[0], runs[1], "--json"]]
    found.append(["archive", path, "--out", path.with_name("a.archive"), "--before", "2099-01-01"])
    return found


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("made_up", [out_of_order, with_other_values])
def test_whatever_was_made_up_ends_no_command_in_disorder(made_up: object, seed: int, tmp_path: Path) -> None:
    assert callable(made_up)
    rng = random.Random(seed)
    runs = trio.run(write, path := tmp_path / "j.db", made_up(rng, of_some_runs(rng)))
    for command in commands(path, runs):
        done = called(*command)
        assert done.returncode in {Exit.OK, Exit.BAD, Exit.NOT_FOUND, Exit.CONFLICT, Exit.STORAGE}, (
            command,
            done.stderr,
        )
        assert "Traceback" not in done.stderr + done.stdout
        assert "\x1b" not in done.stderr + done.stdout, command
        if done.returncode > Exit.BAD:
            assert complaint(done), command
