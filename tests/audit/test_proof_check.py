"""``check-proof``: a proof is checked by itself, and whatever is changed in it is found."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.program import ROOT, JsonObject, called, complaint, ok_called, one_object

from trouper.audit.proof_check import check_proof
from trouper_journal.proofs import InvalidProof
from trouper_journal.signing import InvalidNote, read_public_key


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a public key and two proofs; no journal."""
    folder = tmp_path_factory.mktemp("proved")
    shutil.copy(ROOT / "tests" / "golden" / "journal-1.db", journal := folder / "j.db")
    ok_called("keygen", key := folder / "key", "--name", "example.com/desk")
    ok_called("checkpoint", journal, "--key", key)
    (folder / "record.json").write_text(ok_called("prove", journal, "3", "--pub", f"{key}.pub"))
    (folder / "growth.json").write_text(ok_called("prove", journal, "--from", "7", "--pub", f"{key}.pub"))
    (folder / "plain.json").write_text(ok_called("prove", journal, "3", "--to", "9"))
    for each in (journal, key, folder / "j.db.checkpoints"):
        each.unlink()
    return folder


def test_a_proof_is_checked_without_the_journal(proved: Path) -> None:
    pub = str(proved / "key.pub")
    told = ok_called("check-proof", proved / "record.json", "--pub", pub)
    assert "the record at position 3 is among 11 records" in told
    assert "those that example.com/desk signed" in told
    found = one_object(ok_called("check-proof", proved / "record.json", "--pub", pub, "--json"))
    assert (found["position"], found["size"], found["record"], found["signed_by"]) == (3, 11, True, "example.com/desk")
    told = ok_called("check-proof", proved / "growth.json", "--pub", pub)
    assert "a journal of 7 records" in told
    assert "has only grown since, to 11 records" in told
    assert "nobody's signature was checked" in ok_called("check-proof", proved / "plain.json")


def test_what_proves_nothing_is_bad(proved: Path, tmp_path: Path) -> None:
    ok_called("keygen", other := tmp_path / "other", "--name", "example.com/desk")
    done = called("check-proof", proved / "record.json", "--pub", f"{other}.pub")
    assert (done.returncode, "none of the keys that are trusted" in complaint(done)) == (1, True)
    done = called("check-proof", proved / "plain.json", "--pub", proved / "key.pub")
    assert (done.returncode, "checkpoint is no text, or not there" in complaint(done)) == (1, True)
    for text in ("", "nonsense", "[]", "{}", "[" * 100_000, "\xff"):
        (tmp_path / "p.json").write_text(text, "latin-1")
        assert called("check-proof", tmp_path / "p.json").returncode == 1, text[:10]
    assert called("check-proof", tmp_path / "none.json").returncode == 3


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where something stands in a proof."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from places(part, (*path, name))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from places(part, (*path, number))
    else:
        yield path


@given(st.data())
def test_whatever_is_changed_in_a_proof_is_found(proved: Path, data: st.DataObject) -> None:
    key = read_public_key(str(proved / "key.pub"))
    whole: JsonObject = json.loads((proved / data.draw(st.sampled_from(["record.json", "growth.json"]))).read_text())
    check_proof(whole, key)
    found = copy.deepcopy(whole)
    *way, last = data.draw(st.sampled_from(list(places(found))))
    parent: object = found
    for step in way:
        parent = parent[step]  # type: ignore[index]
    old = parent[last]  # type: ignore[index]
    if isinstance(old, str) and old:
        at = data.draw(st.integers(0, len(old) - 1))
        new: object = old[:at] + ("1" if old[at] != "1" else "2") + old[at + 1 :]
    else:
        new = data.draw(st.integers(-1, 20).filter(lambda number: number != old))
    parent[last] = data.draw(st.sampled_from([new, None, [], {}, True]))  # type: ignore[index]
    if last == "journal_id" and "position" not in found:
        return  # a proof of growth is about two trees, whosever they are
    with pytest.raises((InvalidProof, InvalidNote)):
        check_proof(found, key)
