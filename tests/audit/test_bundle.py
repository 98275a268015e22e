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
from pathlib import Path
from typing import cast

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.conftest import GOLDEN
from tests.cli.program import ROOT, called, complaint, objects, ok_called, one_object

from trouper import REGISTRY
from trouper.audit import BundleOptions, Subject, verify_bundle, write_bundle
from trouper.errors import BundleError, JournalCorrupt
from trouper_journal import Journal
from trouper_journal.proofs import inclusion_proof
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
    shutil.copy(str(verify_bundle.__file__), program)
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, bundle, "--json", *options], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return Checked(done.returncode, json.loads(done.stdout))


def found_in(files: Mapping[str, bytes], pub: str | None = PUB) -> str | None:
    """The problem that the program finds in a bundle whose manifest was made to fit; None where it finds none."""
    manifest = json.loads(files["manifest.json"])
    listed = {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "manifest.json"}
    fitting = {**files, "manifest.json": json.dumps({**manifest, "files": listed}).encode()}
    try:
        verify_bundle.check(verify_bundle.Bundle(io.BytesIO(_zip(fitting))), pub)
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
    import trio

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
    assert done.found["grade"] == "signed by example.com/desk, whose key you gave"
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
    assert str(checked(folder).found["grade"]).startswith("self-consistent")
    refused = checked(folder, "--pub", PUB)
    assert (refused.code, refused.found["problem"]) == (1, "the bundle holds no checkpoint: nobody has signed it")


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


def _says_the_same(one: bytes, two: bytes) -> bool:
    """Whether two files differ only in white space between JSON's words, or in that between lines."""
    return [json.loads(line) for line in one.split(b"\n") if line] == [
        json.loads(line) for line in two.split(b"\n") if line.strip()
    ]


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
    for name, data in {"empty": b"", "text": b"hello", "zip": _zip({"a": b"b"}), "none": None}.items():
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        done = checked(path)
        assert (done.code, done.found["ok"]) == (1, False)


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


# ---- the pure parts of the program


@pytest.mark.parametrize(
    ("public", "message", "signature"),
    [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
        (
            "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
        ),
    ],
)  # fmt: skip
def test_ed25519_by_the_vectors_of_rfc_8032(public: str, message: str, signature: str) -> None:
    key = bytes.fromhex(public)
    assert verify_bundle.is_signed(key, bytes.fromhex(message), bytes.fromhex(signature))
    assert not verify_bundle.is_signed(key, bytes.fromhex(message) + b"x", bytes.fromhex(signature))


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=100), st.integers(0, 64 * 8 - 1))
def test_ed25519_agrees_with_another_implementation(seed: bytes, message: bytes, bit: int) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(seed)
    public, signature = private.public_key().public_bytes_raw(), private.sign(message)
    assert verify_bundle.is_signed(public, message, signature)
    changed = bytearray(signature)
    changed[bit // 8] ^= 1 << bit % 8
    assert not verify_bundle.is_signed(public, message, bytes(changed))
    # The same value of S beyond the group's order, which RFC 8032 says to refuse.
    beyond = int.from_bytes(signature[32:], "little") + verify_bundle.L
    assert not verify_bundle.is_signed(public, message, signature[:32] + beyond.to_bytes(32, "little"))


@given(st.integers(1, 40), st.data())
def test_inclusion_agrees_with_the_journal(size: int, data: st.DataObject) -> None:
    leaves = [hashlib.sha256(bytes([number])).digest() for number in range(size)]
    index = data.draw(st.integers(0, size - 1))
    path = list(inclusion_proof(leaves, index))
    roots = {
        verify_bundle.root_of(leaves[each], each, size, list(inclusion_proof(leaves, each))) for each in range(size)
    }
    assert roots == {verify_bundle.root_of(leaves[index], index, size, path)}
    for wrong in (path[:-1], [*path, bytes(32)]):
        if wrong != path:
            with pytest.raises(verify_bundle.Bad):
                verify_bundle.root_of(leaves[index], index, size, wrong)


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
