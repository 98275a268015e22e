"""Evidence bundles, and the program that checks them: what holds is said, what does not is found."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import trio
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.conftest import GOLDEN
from tests.cli.program import ROOT, called, complaint, objects, ok_called, one_object

from trouper import REGISTRY
from trouper.audit import BundleOptions, Subject, verifier_source, verify_bundle, verify_forms, write_bundle
from trouper.cli.codes import ConflictError
from trouper.cli.new_file import new_file
from trouper.core.events import CancelRequested, Limits, RunStarted, RunSubmitted
from trouper.errors import BundleError, JournalCorrupt
from trouper_journal import Journal, Write
from trouper_journal.signing import SignerKey, sign_head

RUN = "01KDVDQ4K08R1PCMZZ5184GMN6"
KEY = SignerKey("example.com/desk", bytes(range(32)))
PUB = str(KEY.verifier)


@frozen
class Checked:
    """What the stand-alone program said, in an interpreter that has no library but Python's own."""

    code: int
    found: Mapping[str, object]


def checked(bundle: Path, *options: str) -> Checked:
    program = bundle.parent / "verify.py"
    program.write_text(verifier_source(), "utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, bundle, "--json", *options], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return Checked(done.returncode, json.loads(done.stdout))


def fitted(files: Mapping[str, bytes], **changes: object) -> bytes:
    """A bundle of these files, with a manifest that was made to fit, or else changed."""
    manifest = json.loads(files["manifest.json"])
    listed = {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "manifest.json"}
    return _zip({**files, "manifest.json": json.dumps({**manifest, "files": listed, **changes}).encode()})


def without(files: Mapping[str, bytes], gone: Callable[[dict[str, object]], bool]) -> dict[str, bytes]:
    """The files of a bundle without some of its records and their proofs."""
    lines = [json.loads(line) for line in files["records.jsonl"].splitlines()]
    lost = {line["position"] for line in lines if gone(line)}
    assert lost
    kept = {
        name: b"".join(
            line for line in files[name].splitlines(keepends=True) if json.loads(line)["position"] not in lost
        )
        for name in ("records.jsonl", "proofs.jsonl")
    }
    manifest = {**json.loads(files["manifest.json"]), "records": len(lines) - len(lost)}
    return {**files, **kept, "manifest.json": json.dumps(manifest).encode()}


def found_in(files: Mapping[str, bytes], pub: str | None = PUB) -> str | None:
    """The problem that the program finds in a bundle whose manifest was made to fit; None where it finds none."""
    try:
        verify_bundle.check(verify_bundle.read_files(io.BytesIO(fitted(files))), pub)
    except Exception as error:  # noqa: BLE001 -- as the program's own main does
        return str(error) or type(error).__name__
    return None


async def bundled(path: Path, out: Path, subject: Subject, *, sign: bool = True, redact: bool = False) -> int:
    async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
        signed = await sign_head(journal, KEY) if sign else None
        options = BundleOptions(1_790_000_000_000_000_000, signed, KEY.verifier, redact=redact)
        with out.open("wb") as file:
            return await write_bundle(journal, subject, file, options)


def contents(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a signed bundle about one run with sub-agents."""
    folder = tmp_path_factory.mktemp("bundle")
    shutil.copy(GOLDEN / "runs-1.db", folder / "runs.db")

    async def make() -> int:
        return await bundled(folder / "runs.db", folder / "bundle.zip", Subject("run", RUN))

    trio.run(make)
    return contents(folder / "bundle.zip")


@pytest.mark.parametrize("subject", [Subject("run", RUN), Subject("session", "cust-1")], ids=str)
@pytest.mark.parametrize("redact", [False, True])
async def test_a_bundle_holds_with_nothing_but_python(
    golden_runs: Path, tmp_path: Path, subject: Subject, redact: bool
) -> None:
    out = tmp_path / "bundle.zip"
    written = await bundled(golden_runs, out, subject, redact=redact)
    done = checked(out, "--pub", PUB)
    assert (done.code, done.found["ok"]) == (0, True)
    assert (done.found["grade"], done.found["key"]) == ("signed", PUB)
    assert done.found["records"] == written
    assert done.found["redacted"] is redact
    text = b"".join(data for name, data in contents(out).items() if name != "verify.py").decode()
    assert ("It rains on Mondays." in text) is (subject.kind == "run" and not redact)


async def test_unpacked_it_holds_too_and_without_a_signature_it_says_so(golden_runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle.zip"
    await bundled(golden_runs, out, Subject("run", RUN), sign=False)
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(out) as archive:
        archive.extractall(folder)
    assert (checked(folder).found["grade"], checked(folder).found["key"]) == ("unsigned", None)
    refused = checked(folder, "--pub", PUB)
    assert (refused.code, refused.found["problem"]) == (1, "the bundle holds no checkpoint: nobody has signed it")


def test_the_program_is_one_file_in_the_order_of_reading() -> None:
    source = verifier_source()
    assert source.startswith("#!/usr/bin/env python3\n")
    imports = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert imports == [imports[0], *sorted(imports[1:], key=lambda line: (line[0] != "i", line))]
    places = [source.index(text) for text in (imports[-1], "class Bad(", "# ---- records", "def main(")]
    assert places == sorted(places)
    assert "from trouper" not in source
    compile(source, "verify.py", "exec")


def test_the_key_that_came_with_it_is_named_and_another_is_refused(files: dict[str, bytes]) -> None:
    assert found_in(files) is None
    assert found_in(files, None) is None
    other = str(SignerKey("example.com/desk", bytes(32)).verifier)
    assert found_in(files, other) == "the checkpoint was not signed by example.com/desk"


@given(st.sampled_from(["records.jsonl", "proofs.jsonl", "checkpoint.txt"]), st.integers(0, 2**20), st.integers(1, 255))
def test_every_change_to_what_a_bundle_proves_is_found(
    files: dict[str, bytes], name: str, place: int, mask: int
) -> None:
    """One byte of one file becomes another, and the manifest is made to fit; the key is the auditor's own."""
    changed = bytearray(files[name])
    changed[place % len(changed)] ^= mask
    problem = found_in({**files, name: bytes(changed)})
    assert problem is not None or _says_the_same(files[name], bytes(changed))


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\r", "\x1c", "\x85", "\u2028", ""])
def test_a_checkpoint_ends_with_a_newline_and_nothing_else(files: dict[str, bytes], end: str) -> None:
    note = files["checkpoint.txt"].decode()
    assert note.endswith("\n")
    assert found_in({**files, "checkpoint.txt": (note[:-1] + end).encode()}) is not None


def _says_the_same(one: bytes, two: bytes) -> bool:
    """Whether two files differ only in white space between JSON's words, or in that between lines."""
    return [json.loads(line) for line in one.split(b"\n") if line] == [
        json.loads(line) for line in two.split(b"\n") if line.strip()
    ]


@pytest.mark.parametrize("last", [8, 20])
def test_how_far_a_run_is_shown_is_said(
    files: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], last: int
) -> None:
    """Whoever cuts a bundle at its end leaves nothing that does not hold."""
    cut = {}
    for name in ("records.jsonl", "proofs.jsonl"):
        lines = [line for line in files[name].splitlines(keepends=True) if json.loads(line)["position"] <= last]
        cut[name] = b"".join(lines)
    whole, part = tmp_path / "whole.zip", tmp_path / "part.zip"
    whole.write_bytes(_zip(files))
    part.write_bytes(fitted({**files, **cut}, records=len(cut["proofs.jsonl"].splitlines())))
    assert verify_bundle.main([str(whole), "--pub", PUB]) == 0
    told = capsys.readouterr().out
    assert f"run/{RUN} up to version 19" in told
    assert "NOT SHOWN" not in told
    assert verify_bundle.main([str(part), "--pub", PUB]) == 0
    assert f"run/{RUN} up to version " in (told := capsys.readouterr().out)
    assert "NOT SHOWN TO ITS END" in told


def test_what_is_proven_can_be_read(
    files: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is for reading, and whoever has it can edit it: the program says so, and shows what holds."""
    path = tmp_path / "bundle.zip"
    path.write_bytes(fitted({**files, "report.html": b"<h1>maria did it</h1>"}))
    assert verify_bundle.main([str(path), "--pub", PUB, "--show"]) == 0
    told = capsys.readouterr().out
    assert "report.html and the other files were NOT checked" in told
    assert "It rains on Mondays." in told
    assert "maria did it" not in told


@pytest.mark.parametrize(("name", "value"), [("records", 3), ("size", 5), ("root", "00" * 32), ("redacted", True)])
def test_a_manifest_that_tells_otherwise_is_found(files: dict[str, bytes], name: str, value: object) -> None:
    with pytest.raises(verify_forms.Bad):
        verify_bundle.check(verify_bundle.read_files(io.BytesIO(fitted(files, **{name: value}))), PUB)


async def test_the_runs_that_a_run_began_from_come_along(golden_runs: Path, tmp_path: Path) -> None:
    """Where a turn follows others, what they held is what its model saw: they are there, as far as it did."""
    out = tmp_path / "turn.zip"
    await bundled(golden_runs, out, Subject("run", "01KE0W9P40CDAZD9AZAEM1S82Q"))
    files = contents(out)
    streams = {json.loads(line)["stream"] for line in files["records.jsonl"].splitlines()}
    earlier = [f"run/{run}" for run in ("01KE0W2BR0EK83908FPP3FA5Y2", "01KE0W46B0BJA9K890PTPFDCYW")]
    assert streams > {*earlier, "run/01KE0W7VH0DZNQKG05P18PTD7R"}
    assert "session/cust-2" not in streams
    assert found_in(files) is None
    lacking = without(files, lambda line: line["stream"] == earlier[0])
    assert found_in(lacking) == f"{earlier[0]} is not here up to its version 12, where {earlier[1]} began from it"
    shorter = without(files, lambda line: line["stream"] == earlier[1] and line["version"] == 7)
    assert "is not here up to its version 7" in str(found_in(shorter))


async def test_what_came_later_in_a_run_that_another_began_from_is_not_told(golden_runs: Path, tmp_path: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY) as journal:
        await journal.append("run/01KE0W7VH0DZNQKG05P18PTD7R", [CancelRequested()])
    out = tmp_path / "turn.zip"
    await bundled(golden_runs, out, Subject("run", "01KE0W9P40CDAZD9AZAEM1S82Q"))
    assert b"cancel_requested" not in contents(out)["records.jsonl"]
    assert found_in(contents(out)) is None


def test_definitions_are_held_against_the_digests_that_runs_name(files: dict[str, bytes]) -> None:
    definitions = [json.loads(line) for line in files["records.jsonl"].splitlines() if b'"definition.recorded"' in line]
    for line in definitions:
        facts, document = line["facts"], line["content"]["document"]
        name = line["stream"].partition("/")[2]
        verify_bundle._check_definition(line["stream"], facts, line["content"])
        for wrong in (
            (f"definition/{name[::-1]}", facts, {"document": document}),
            (line["stream"], {**facts, "prose": facts["contract"]}, {"document": document}),
            (line["stream"], facts, {"document": {**document, "prose": {"instructions": "Pay maria."}}}),
        ):
            with pytest.raises(verify_forms.Bad):
                verify_bundle._check_definition(*wrong)
    assert len(definitions) == 2
    lacking = without(files, lambda line: line["stream"] == definitions[0]["stream"])
    assert "is not here, which run/" in str(found_in(lacking))


async def test_a_run_that_another_began_and_a_turn_cannot_be_left_out(golden_runs: Path, tmp_path: Path) -> None:
    for number, subject in enumerate([Subject("run", RUN), Subject("session", "cust-1")]):
        out = tmp_path / f"{number}.zip"
        await bundled(golden_runs, out, subject)
        files = contents(out)
        began = f"run/{RUN}~0.1" if subject.kind == "run" else "run/01KE0W0H50DP78RW7HX4TDBQ39"
        lacking = without(files, partial(_is_of, began))
        assert found_in(lacking) == f"{began} is not here, which {subject.stream} names"


def _is_of(stream: str, line: Mapping[str, object]) -> bool:
    return line["stream"] == stream


Lines = list[dict[str, object]]


def _drop(lines: Lines) -> None:
    del lines[10]


def _drop_first(lines: Lines) -> None:
    del lines[0]


def _swap(lines: Lines) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def _twice(lines: Lines) -> None:
    lines.insert(7, lines[7])


def _say_otherwise(lines: Lines) -> None:
    cast("dict[str, object]", lines[0]["facts"])["agent"] = "another"


def _say_more(lines: Lines) -> None:
    lines[3]["note"] = "approved by the director"


def _move_in_time(lines: Lines) -> None:
    lines[3]["recorded_at"] = "2020-01-01T00:00:00.000000000Z"


def _true_for_one(lines: Lines) -> None:
    lines[0]["version"] = True


def _withhold(lines: Lines) -> None:
    lines[0]["content"] = {"$withheld": True}
    cast("dict[str, object]", lines[0]["raw"]).pop("content")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_drop, "is missing before it"),
        (_drop_first, "is missing before it"),
        (_swap, "does not stand behind the record before it"),
        (_twice, "does not stand behind the record before it"),
        (_say_otherwise, "what is shown as its facts is not what was stored"),
        (_say_more, "it has other fields than a record has"),
        (_move_in_time, "its digest is not that of the stored bytes"),
        (_true_for_one, "a number that is none"),
        (_withhold, "does not say that it was withheld"),
    ],
)
def test_a_forged_record_is_found_and_named(
    files: dict[str, bytes], change: Callable[[Lines], None], problem: str
) -> None:
    lines: Lines = [json.loads(line) for line in files["records.jsonl"].splitlines()]
    change(lines)
    forged = "".join(json.dumps(line) + "\n" for line in lines).encode()
    found = found_in({**files, "records.jsonl": forged})
    assert found is not None
    assert problem in found
    assert found.startswith("record ")


def test_what_is_no_bundle_is_said_in_a_line(tmp_path: Path) -> None:
    for name, data in {"empty": b"", "text": b"hello", "zip": _zip({"a": b"b"})}.items():
        path = tmp_path / name
        path.write_bytes(data)
        done = checked(path)
        assert (done.code, done.found["ok"]) == (1, False)


@pytest.mark.parametrize("given", [["nothing.zip"], ["bundle.zip", "--pub", "no.pub"], ["bundle.zip", "--pub", "a+b"]])
def test_what_was_asked_for_wrongly_is_no_finding(
    files: dict[str, bytes], tmp_path: Path, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bundle.zip").write_bytes(_zip(files))
    with pytest.raises(SystemExit) as ended:
        verify_bundle.main([str(tmp_path / given[0]), *given[1:]])
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    assert told.err.splitlines()[-1].startswith("verify.py: error: ")


@given(st.binary(max_size=200), st.sampled_from(["manifest.json", "records.jsonl", "proofs.jsonl", "checkpoint.txt"]))
def test_whatever_stands_in_a_file_is_no_traceback(files: dict[str, bytes], data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as out:
        path = Path(folder, "bundle.zip")
        path.write_bytes(_zip({**files, name: data}))
        assert verify_bundle.main([str(path)]) == 1
    assert out.getvalue().startswith("BAD: ")


def _zip(files: Mapping[str, bytes]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return memory.getvalue()


# ---- making one


async def test_a_damaged_record_is_not_made_evidence_of(golden_runs: Path, tmp_path: Path) -> None:
    database = sqlite3.connect(golden_runs)
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    database.execute("UPDATE events SET recorded_at = recorded_at + 1 WHERE position = 4")
    database.commit()
    database.close()
    with pytest.raises(JournalCorrupt):
        await bundled(golden_runs, tmp_path / "bundle.zip", Subject("run", RUN))


async def test_records_that_came_after_the_checkpoint_are_not_left_out_silently(
    golden_runs: Path, tmp_path: Path
) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        signed = await sign_head(journal, KEY)
    old = type(signed.checkpoint)(signed.checkpoint.origin, 20, signed.checkpoint.root)
    options = BundleOptions(0, type(signed)(old, signed.note), KEY.verifier)
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        with (tmp_path / "bundle.zip").open("wb") as file, pytest.raises(BundleError, match="17 records of run"):
            await write_bundle(journal, Subject("run", RUN), file, options)


def test_the_commands_from_key_to_bundle(golden_runs: Path, tmp_path: Path) -> None:
    key, out = tmp_path / "desk.key", tmp_path / "evidence.zip"
    pub = ok_called("keygen", key, "--name", "example.com/desk").strip()
    ok_called("checkpoint", golden_runs, "--key", key)
    told = one_object(
        ok_called(
            "export", golden_runs, "--session", "cust-2", "--format", "bundle", "--out", out, "--pub", pub, "--json"
        )
    )
    done = checked(out, "--pub", pub)
    assert (done.code, done.found["records"]) == (0, told["records"])
    report = contents(out)["report.html"].decode()
    assert "matches checkpoint" in report


def test_what_would_not_hold_is_not_written(tmp_path: Path) -> None:
    """A run whose definition is nowhere, as in a journal that somebody made up."""
    path, out = tmp_path / "made.db", tmp_path / "evidence.zip"

    async def make_up() -> None:
        started = RunStarted("00" * 32, "", "", 1, Limits())
        async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("nobody") as fence:
            await journal.commit([Write("run/R", [RunSubmitted("desk"), started])], fence=fence)

    trio.run(make_up)
    done = called("export", path, "--run", "R", "--format", "bundle", "--out", out)
    assert done.returncode == 1
    assert "definition/0000" in complaint(done)
    assert list(tmp_path.glob("*evidence*")) == []


def test_nothing_is_overwritten_whatever_comes_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConflictError), new_file(path):
        raise AssertionError
    path.unlink()

    def write_too_late() -> None:
        with new_file(path) as file:
            file.write(b"mine")
            path.write_bytes(b"theirs")

    with pytest.raises(ConflictError):
        write_too_late()
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_evidence_of_an_example_holds_in_a_bare_virtual_environment(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "examples" / "extraction.py"], cwd=tmp_path, check=True, capture_output=True)
    journal, key, out = tmp_path / "claims.db", tmp_path / "claims.key", tmp_path / "evidence.zip"
    (row,) = objects(ok_called("runs", journal, "--json"))
    pub = ok_called("keygen", key, "--journal", journal).strip()
    ok_called("checkpoint", journal, "--key", key)
    ok_called("export", journal, "--run", str(row["run"]), "--format", "bundle", "--out", out, "--pub", pub)
    with zipfile.ZipFile(out) as archive:
        archive.extract("verify.py", tmp_path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    missing = subprocess.run([python, "-c", "import trouper"], env=without, capture_output=True, check=False, cwd="/")
    assert missing.returncode == 1
    done = subprocess.run(
        [python, tmp_path / "verify.py", out, "--pub", pub], env=without, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("signed by trouper/")


@pytest.mark.parametrize(
    "options",
    [
        ["--format", "bundle", "--out", "x.zip"],
        ["--format", "bundle", "--run", RUN],
        ["--format", "bundle", "--run", RUN, "--out", "x.zip", "--raw"],
        ["--format", "html", "--run", RUN, "--after", "3"],
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_refused(golden_runs: Path, options: list[str]) -> None:
    done = called("export", golden_runs, *options)
    assert done.returncode == 2
    assert complaint(done)
