"""Exports of what is sealed, erased or archived: what is not there is said, and the rest is there."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import attrs
import pytest
from jsonschema import Draft202012Validator
from tests.audit.sealed_twin import write_sealed_twin
from tests.journal.notes import REGISTRY as NOTES
from tests.journal.notes import Note

from trouper import REGISTRY
from trouper.audit import (
    BundleOptions,
    LineOptions,
    ReportOptions,
    Subject,
    export_jsonl,
    record_schema,
    verify_bundle,
    write_bundle,
    write_report,
)
from trouper.errors import BundleError
from trouper_journal import Domain, Journal, Write, leaf_digest
from trouper_journal.archive import beside, move_to_archive, open_archive, write_archive
from trouper_journal.sealing import FileKeyStore, KeyStore, MemoryKeyStore

RUN = "01KDVDQ4K08R1PCMZZ5184GMN6"
DOMAIN = Domain("notes", bytes(32))
LONG = "long " * 20_000


async def lines_of(path: Path, keys: KeyStore | None, options: LineOptions) -> list[Mapping[str, object]]:
    lines: list[str] = []
    async with Journal.open(path, registry=NOTES, keys=keys) as journal:
        await export_jsonl(journal, lines.append, options=options)
    told = [cast("Mapping[str, object]", json.loads(line)) for line in lines]
    validator = Draft202012Validator(record_schema())
    assert all(validator.is_valid(line) for line in told)
    return told


async def test_sealed_content_is_exported_to_whoever_has_the_keys(tmp_path: Path) -> None:
    path, keys = tmp_path / "sealed.db", MemoryKeyStore()
    async with Journal.open(path, registry=NOTES, keys=keys) as journal:
        await journal.commit([Write("notes/1", [Note(1, "secret"), Note(2, LONG)], domain=DOMAIN)])
    erased = {"$erased": True}
    shown = [line["content"] for line in await lines_of(path, keys, LineOptions())]
    assert shown == [{"text": "secret"}, {"text": LONG}]
    assert [line["content"] for line in await lines_of(path, None, LineOptions())] == [erased, erased]
    # Beside the stored bytes only what they say is shown: whoever checks them has no key.
    assert [line["content"] for line in await lines_of(path, keys, LineOptions(raw=True))] == [erased, erased]
    assert [line["content"] for line in await lines_of(path, keys, LineOptions(redact=True))] == [erased, erased]


async def test_a_bundle_tells_nothing_of_what_is_sealed_though_the_keys_are_at_hand(
    golden_runs: Path, tmp_path: Path
) -> None:
    """What was said is no evidence where its records hold it sealed, and once erased it must not live on there."""
    twin = await write_sealed_twin(golden_runs, tmp_path / "twin.db")
    pieces: list[str] = []
    out = tmp_path / "sealed.zip"
    async with Journal.open(twin, registry=REGISTRY, keys=FileKeyStore(f"{twin}.keys")) as journal:
        await write_report(journal, Subject("run", RUN), pieces.append, ReportOptions(0))
        with out.open("wb") as file:
            await write_bundle(journal, Subject("run", RUN), file, BundleOptions(0))
    assert "It rains on Mondays." in "".join(pieces)
    with zipfile.ZipFile(out) as archive:
        assert not any(b"It rains on Mondays." in archive.read(name) for name in archive.namelist())
    assert verify_bundle.check(verify_bundle.read_files(out), None)["ok"] is True


async def archive_run(path: Path, archive: Path) -> None:
    streams = [f"run/{RUN}", f"run/{RUN}~0.0", f"run/{RUN}~0.1"]
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("test"):
        await write_archive(journal, archive, [streams], new_id=bytes(16), now=1)
        await move_to_archive(journal, archive, at=await journal.position(), allowed=lambda _: True)


async def test_an_archived_run_is_told_as_such_and_whole_with_its_archive(golden_runs: Path, tmp_path: Path) -> None:
    archive = tmp_path / "runs.archive"
    await archive_run(golden_runs, archive)
    pieces: list[str] = []
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        await write_report(journal, Subject("run", RUN), pieces.append, ReportOptions(0))
        with (tmp_path / "none.zip").open("wb") as file, pytest.raises(BundleError, match=r"archived to runs\.archive"):
            await write_bundle(journal, Subject("run", RUN), file, BundleOptions(0))
    html = "".join(pieces)
    assert "Its records were moved to runs.archive." in html
    assert "Both are known." not in html

    out = tmp_path / "whole.zip"
    async with (
        open_archive(archive) as opened,
        Journal.open(golden_runs, registry=REGISTRY, wrap=beside(opened)) as journal,
    ):
        pieces.clear()
        await write_report(journal, Subject("run", RUN), pieces.append, ReportOptions(0))
        with out.open("wb") as file:
            await write_bundle(journal, Subject("run", RUN), file, BundleOptions(0))
    assert "Both are known." in "".join(pieces)
    assert verify_bundle.check(verify_bundle.read_files(out), None)["ok"] is True


async def test_an_event_of_a_newer_release_is_named_and_the_rest_is_told(golden_runs: Path) -> None:
    """The record is whole, with a digest that fits; only what it means is not known here."""
    database = sqlite3.connect(golden_runs)
    (journal_id,) = database.execute("SELECT id FROM journal").fetchone()
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    async with Journal.open(golden_runs, read_only=True) as journal:
        (record,) = await journal.read_page(f"run/{RUN}", after=8, limit=1)
    newer = attrs.evolve(record, type="action.foreseen", schema=3)
    database.execute(
        "UPDATE events SET type = ?, schema = ?, leaf = ? WHERE position = ?",
        (newer.type, newer.schema, leaf_digest(journal_id, newer), newer.position),
    )
    database.commit()
    database.close()
    pieces: list[str] = []
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        await write_report(journal, Subject("run", RUN), pieces.append, ReportOptions(0))
        lines: list[str] = []
        await export_jsonl(journal, lines.append, Subject("run", RUN))
    html = "".join(pieces)
    assert "action.foreseen (schema 3, unknown to this release)" in html
    assert "Not readable as a whole" in html
    assert "are damaged" not in html
    assert "It rains on Mondays." in html
    assert '"type":"action.foreseen","schema":3' in "".join(lines)
