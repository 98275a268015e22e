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


async def test_twenty_lines_run_as_printed_and_a_second_time_for_nothing(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    (tmp_path / "desk.py").write_text(blocks[0])
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
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 20


def test_every_page_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+?)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_two_commands_are_targets_of_make() -> None:
    for target in ("demo", "test"):
        assert f"make {target}" in (ROOT / "README.md").read_text()
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
