"""The README's example runs as it is printed, against a model server on loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import trio

from trouper.testing import Reply, strict_stub, tc

ROOT = Path(__file__).parents[2]


def blocks() -> list[str]:
    """The page's Python."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_twenty_lines_run_as_printed_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(blocks()[0])
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}

    def run() -> str:
        done = subprocess.run([sys.executable, "desk.py"], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert (first := run()).startswith("Closed.")
    assert run() == first


async def test_twenty_lines_run_with_a_real_model_and_a_second_time_for_nothing(tmp_path: Path) -> None:
    example, real_model = blocks()
    # As the page says: the real model stands in the script's place.
    imported, model = real_model.splitlines()
    with_model, count = re.subn(r"^model = .*$", model, example, flags=re.MULTILINE)
    assert count == 1
    (tmp_path / "desk.py").write_text(f"{imported}\n{with_model}")
    script: list[str | Reply] = [
        Reply(calls=[tc("c1", "lookup", json.dumps({"ticket": "INC-001"}))]),
        Reply(calls=[tc("c2", "close_ticket", json.dumps({"ticket": "INC-001"}))]),
        "INC-001 is closed.",
    ]
    async with strict_stub(script) as stub:
        env = {**os.environ, "OPENAI_BASE_URL": stub.url, "OPENAI_API_KEY": "none"}

        async def run() -> str:
            done = await trio.run_process(
                [sys.executable, "desk.py"], cwd=tmp_path, env=env, capture_stdout=True, capture_stderr=True
            )
            return done.stdout.decode()

        first = await run()
        assert first.startswith("INC-001 is closed.")
        assert await run() == first
        assert len(stub.requests) == 3
        stub.assert_clean()


def test_example_is_about_twenty_lines() -> None:
    assert len([line for line in blocks()[0].splitlines() if line.strip()]) <= 20


def test_every_page_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+?)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_two_commands_are_targets_of_make() -> None:
    for target in ("demo", "test"):
        assert f"make {target}" in (ROOT / "README.md").read_text()
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
