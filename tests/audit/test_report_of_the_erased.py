"""A report without the content says nothing that one with it does not say, or marks it as erased."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import trio
from tests.audit.conftest import GOLDEN
from tests.audit.sealed_twin import write_sealed_twin
from tests.audit.test_report import parsed
from tests.audit.test_what_erased_readings_say import pieces

from trouper import REGISTRY
from trouper.audit import ReportOptions, Subject, write_report
from trouper_journal import Journal
from trouper_journal.sealing import FileKeyStore, KeyStore

ABOUT_IT: Final = re.compile(
    r"Not all can be read|Some of what was said cannot be read|what was said before|no keys|Run of \w+, \w+"
)


async def reports(path: Path, keys: KeyStore | None) -> dict[str, list[str]]:
    """The texts of the report of each run."""
    found: dict[str, list[str]] = {}
    async with Journal.open(path, registry=REGISTRY, read_only=True, keys=keys) as journal:
        async for head in journal.streams(prefix="run/"):
            made: list[str] = []
            run = head.stream.removeprefix("run/")
            await write_report(journal, Subject("run", run), made.append, ReportOptions(0))
            found[run] = [" ".join(text.split()) for text in parsed("\n".join(made)).text if text.strip()]
    return found


def test_no_report_says_more_than_with_the_content(tmp_path: Path) -> None:
    twin = tmp_path / "runs.db"
    trio.run(write_sealed_twin, GOLDEN / "runs-1.db", twin)
    full, bare = trio.run(reports, twin, FileKeyStore(f"{twin}.keys")), trio.run(reports, twin, None)
    marked = 0
    for run, texts in bare.items():
        whole = " ".join(full[run])
        for text in texts:
            marked += "[erased" in text
            if ABOUT_IT.search(text) is None:
                told = re.search(".*".join(map(re.escape, pieces(text.rstrip(":")))), whole, re.DOTALL)
                assert told is not None, f"{run}: {text!r}"
    assert marked > 500
