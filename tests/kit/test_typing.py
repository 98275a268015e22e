"""What a type checker says about uses of the kit, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

PRELUDE = """
from __future__ import annotations
from typing import Any, assert_type
import attrs
from trouper.kit import Actor, ActorSystem, Ref, Reply, Request, Supervision, Terminated

@attrs.frozen
class Ping(Request[str]):
    text: str

@attrs.frozen
class Add:
    number: int

class Echo(Actor[Ping | Add]):
    async def receive(self, message: Ping | Add) -> object:
        if isinstance(message, Ping):
            reply = self.context.reply_later(message)
            assert_type(reply, Reply[str])
        await self.context.ref.tell(Add(1))
        return None

async def use(system: ActorSystem, ref: Ref[Ping | Add]) -> None:
"""

RIGHT = [
    "assert_type(await ref.ask(Ping('a')), str)",
    "await ref.tell(Add(1))",
    "ref.tell_nowait(Ping('a'))",
    "assert_type(await system.spawn(Echo()), Ref[Ping | Add])",
    "assert_type(await system.spawn(Echo, supervision=Supervision()), Ref[Ping | Add])",
    "assert_type(await system.spawn(lambda: Echo()), Ref[Ping | Add])",
    "narrower: Ref[Add] = ref",
    "assert_type(await ref.stop(), Terminated)",
]

WRONG = [
    ("await ref.tell('text')", "arg-type"),
    ("ref.tell_nowait(1)", "arg-type"),
    ("await ref.ask(Add(1))", "arg-type"),
    ("number: int = await ref.ask(Ping('a'))", "arg-type"),
    ("wider: Ref[Ping | Add | str] = ref", "assignment"),
    ("await system.spawn(Ping)", "arg-type"),
    ("Supervision(on_failure='resume')", "arg-type"),
    ("system.spawn(Echo())", "unused-coroutine"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says, by line."""
    lines = [*RIGHT, *(line for line, _code in WRONG)]
    snippet = tmp_path_factory.mktemp("typing") / "snippet.py"
    snippet.write_text(PRELUDE + "".join(f"    {line}\n" for line in lines))
    root = Path(__file__).parents[2]
    out, err, _status = api.run(
        ["--config-file", str(root / "pyproject.toml"), "--no-error-summary", "--no-incremental", str(snippet)]
    )
    assert not err
    found: dict[int, str] = {}
    for line in out.splitlines():
        place = line.split(":", 2)
        if place[0].endswith("snippet.py") and ": error: " in line:
            found[int(place[1]) - PRELUDE.count("\n")] = line
    return found


@pytest.mark.parametrize("number", range(len(RIGHT)), ids=RIGHT)
def test_a_right_use_is_accepted(report: dict[int, str], number: int) -> None:
    assert report.get(number + 1) is None


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[line for line, _ in WRONG])
def test_a_wrong_use_is_an_error(report: dict[int, str], number: int) -> None:
    assert f"[{WRONG[number][1]}]" in report.get(len(RIGHT) + number + 1, "accepted")


def test_the_actor_itself_is_accepted(report: dict[int, str]) -> None:
    assert not [line for number, line in report.items() if number <= 0]
