#!/usr/bin/env python3
"""Checks an evidence bundle of Trouper offline: ``python3 verify.py BUNDLE [--pub KEY]``.

One file, and nothing but Python's standard library (3.9 or later): read it before you trust it. It looks that

1. each record's leaf is that of its stored bytes, and what the bundle shows of it is what those bytes say,
2. each record is in the Merkle tree whose root is given (RFC 6962),
3. streams have no gaps from their beginning to the last record here (but those of ``system/``, of which only what
   concerns the bundle is in it),
4. what the subject's runs name is here: the definitions that they followed, each with its digest, the turns of a
   session, the runs that calls began, and the earlier runs whose conversations they began from,
5. the root and the number of records were signed (Ed25519, RFC 8032; notes and checkpoints as C2SP writes them),
   by the key that you give with ``--pub``. A key that comes with the bundle proves nothing about who made it.

It cannot see what is not there: records that followed the last one of a stream, and other streams. Of each run it
says how far it is shown. The report in a bundle is for reading, and is not checked: ``--show`` prints what is proven.
Exit code 0: all of it holds; 1: something does not; 2: used wrongly, or there is no such file.
"""

from __future__ import annotations

import argparse
import calendar
import hashlib
import json
import re
import signal
import struct
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from trouper.audit.verify_forms import (
    Bad,
    open_checkpoint,
    packed,
    parse_key,
    root_of,
    shown,
    unbase64,
    unhex,
    unpacked,
)

FORM = 1
_SHA256_EMPTY = hashlib.sha256(b"").digest()
_LIMIT = 1 << 31
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", re.ASCII)
_NUMBERED = ("form", "position", "version", "schema")
_FIELDS = {
    "form", "journal_id", "position", "stream", "version", "type", "schema", "recorded_at", "key", "label", "wake_at",
    "key_id", "leaf", "meta", "facts", "content", "raw",
}  # fmt: skip


# ---- records (docs/format.md of Trouper)


def leaf_of(line: dict[str, Any], meta: bytes, facts: bytes, content: bytes) -> bytes:
    """The leaf hash of a record from its envelope and the SHA-256 digests of its three byte strings."""
    wake_at = None if line["wake_at"] is None else _nanoseconds(line["wake_at"])
    head = struct.pack(
        ">BB16sQQqIBq",
        0,
        FORM,
        bytes.fromhex(line["journal_id"]),
        line["position"],
        line["version"],
        _nanoseconds(line["recorded_at"]),
        line["schema"],
        wake_at is not None,
        wake_at or 0,
    )
    names = _name(line["stream"]) + _name(line["type"])
    options = b"".join(b"\0" if line[key] is None else b"\1" + _name(line[key]) for key in ("key", "label", "key_id"))
    return hashlib.sha256(head + names + options + meta + facts + content).digest()


def _name(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return struct.pack(">I", len(data)) + data


def _nanoseconds(text: str) -> int:
    if _INSTANT.fullmatch(text) is None:
        raise ValueError(text)
    seconds = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    return seconds * 1_000_000_000 + int(text[20:29])


class Record:
    """A record that was checked: its leaf, and what its stored bytes say."""

    def __init__(self, line: dict[str, Any], redacted: bool) -> None:
        if line.keys() != _FIELDS or any(type(line[key]) is not int for key in _NUMBERED):
            raise Bad("it has other fields than a record has, or a number that is none")
        raw = line["raw"]
        meta, facts = unbase64(raw["meta"], "meta"), unbase64(raw["facts"], "facts")
        self.line = line
        self.facts = unpacked(facts, {}) if facts else {}
        self.content: Any = None
        if ("content" not in raw) is not redacted:
            raise Bad("the bundle does not say that it was withheld, or says so of what is there")
        if redacted:
            digest = unhex(raw["content_sha256"])
            said = None if digest == _SHA256_EMPTY else {"$withheld": True}
        else:
            content = unbase64(raw["content"], "content")
            digest = hashlib.sha256(content).digest()
            apart = {key: unbase64(data, "a value") for key, data in raw["values"].items()}
            if content and line["key_id"] is None:
                if len(content) <= 16:
                    raise Bad("its content is shorter than its random bytes")
                self.content = unpacked(content[16:], apart)
            said = shown(self.content)
        said = {"$erased": True} if line["key_id"] is not None else said
        told = {"meta": shown(unpacked(meta, {}) if meta else {}), "facts": shown(self.facts), "content": said}
        for key, value in told.items():
            # As texts, because in these 1, 1.0 and true differ.
            if json.dumps(line[key], sort_keys=True) != json.dumps(value, sort_keys=True):
                raise Bad(f"what is shown as its {key} is not what was stored")
        self.leaf = leaf_of(line, hashlib.sha256(meta).digest(), hashlib.sha256(facts).digest(), digest)
        if self.leaf.hex() != line["leaf"]:
            raise Bad("its digest is not that of the stored bytes")


class Together:
    """What records come to together: streams without gaps, and nothing named in a run that is not here."""

    def __init__(self) -> None:
        self.last: dict[str, dict[str, Any]] = {}
        self.ended: set[str] = set()
        self.turns: list[str] = []
        self.named: list[tuple[str, str]] = []
        self.bases: dict[str, list[dict[str, Any]]] = {}

    def add(self, record: Record) -> None:
        """One record on, in the order of positions."""
        line, facts = record.line, record.facts
        stream, before = line["stream"], self.last.get(line["stream"], {"version": 0})["version"]
        if line["version"] != before + 1 and not stream.startswith("system/"):
            raise Bad(f"version {before + 1} of its stream is missing before it")
        self.last[stream] = line
        if line["type"] in ("run.succeeded", "run.failed", "run.cancelled"):
            self.ended.add(stream)
        if line["type"] == "turn.queued":
            self.turns.append(f"run/{facts['run']}")
        if line["type"] in ("run.started", "definition.adopted"):
            self.named.append((stream, f"definition/{facts['definition']}"))
        if line["type"] in ("turn.queued", "child.started"):
            self.named.append((stream, f"run/{facts['run']}"))
        if line["type"] in ("run.submitted", "run.started"):
            self.bases.setdefault(stream, []).extend((facts.get("base") or {"refs": []})["refs"])
        if line["type"] == "definition.recorded":
            _check_definition(stream, facts, record.content)

    def check(self, stream: str) -> list[str]:
        """Check that all is here that the subject's runs rest on; the streams of these runs."""
        if stream not in self.last:
            raise Bad(f"there is no record of {stream}")
        roots = [stream] if stream.startswith("run/") else self.turns
        runs = [each for each in self.last if each.split("~")[0] in roots or each.startswith(stream + "~")]
        for owner, needed in self.named:
            if (owner == stream or owner in runs) and needed not in self.last:
                raise Bad(f"{needed} is not here, which {owner} names")
        pending, seen = list(runs), set(runs)
        while pending:
            run = pending.pop()
            for ref in self.bases.get(run, ()):
                base = f"run/{ref['run']}"
                if self.last.get(base, {"version": 0})["version"] < ref["version"]:
                    raise Bad(f"{base} is not here up to its version {ref['version']}, where {run} began from it")
                if ref.get("whole", True) and base not in seen:
                    seen.add(base)
                    pending.append(base)
        return runs

    def standing(self, stream: str) -> dict[str, Any]:
        """How a stream stands at the last of its records here."""
        line = self.last[stream]
        ended = stream in self.ended and str(line["label"]).startswith(("succeeded", "failed", "cancelled"))
        keys = ("stream", "version", "position", "recorded_at", "label")
        return {**{key: line[key] for key in keys}, "ended": ended}


def _check_definition(stream: str, facts: dict[str, Any], content: Any) -> None:
    """A definition has the digest that runs name it by, and its document those of its two halves."""
    if hashlib.sha256(packed([facts["contract"], facts["prose"]])).hexdigest() != stream.partition("/")[2]:
        raise Bad("the definition is not the one whose digest its stream has")
    for half in ("contract", "prose") if content is not None else ():
        if hashlib.sha256(packed(content["document"][half])).hexdigest() != facts[half]:
            raise Bad(f"the {half} of the definition is not the one that runs have pinned")


# ---- the bundle


def read_files(place: Path | IO[bytes]) -> dict[str, bytes]:
    """The files of a bundle, from a zip file, or from a folder that it was unpacked into."""
    if isinstance(place, Path) and place.is_dir():
        files = [each for each in sorted(place.rglob("*")) if each.is_file()]
        return {each.relative_to(place).as_posix(): each.read_bytes() for each in files}
    with zipfile.ZipFile(place) as archive:
        if len(archive.namelist()) != len(set(archive.namelist())):
            raise Bad("a file stands twice in the bundle")
        if sum(each.file_size for each in archive.infolist()) > _LIMIT:
            raise Bad("it is larger than any bundle")
        return {name: archive.read(name) for name in archive.namelist()}


def lines_of(files: dict[str, bytes], name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    for number, line in enumerate(files[name].split(b"\n"), 1):
        if line:
            try:
                found = json.loads(line, object_pairs_hook=_once, parse_constant=_no)
            except (ValueError, RecursionError) as error:
                raise Bad(f"{name}, line {number}: {error}") from None
            if not isinstance(found, dict):
                raise Bad(f"{name}, line {number}: not an object")
            yield found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _no(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def check(files: dict[str, bytes], pinned: str | None) -> dict[str, Any]:
    """Check the files of a bundle; what was found.

    Raises:
        Bad: Something does not hold. Whatever else is raised says the same: this is no bundle.
    """
    manifest = json.loads(files["manifest.json"], object_pairs_hook=_once)
    if manifest.get("bundle") != FORM:
        raise Bad("this is not a bundle of a form that this program knows: take a newer one")
    _check_files(files, manifest["files"])
    size, root, signer = _signed(files, manifest, pinned)
    paths = {line["position"]: [unhex(each) for each in line["path"]] for line in lines_of(files, "proofs.jsonl")}
    together = Together()
    position = records = sealed = 0
    for line in lines_of(files, "records.jsonl"):
        where = f"record {line.get('position')}"
        try:
            record = Record(line, manifest["redacted"])
            if line["journal_id"] != manifest["journal_id"] or line["form"] != FORM:
                raise Bad("it is of another journal, or of an unknown form")
            if line["position"] <= position:
                raise Bad("it does not stand behind the record before it")
            position = line["position"]
            if root_of(record.leaf, position - 1, size, paths.pop(position)) != root:
                raise Bad(f"it is not in the tree{' that was signed' if signer else ''}")
            together.add(record)
        except Bad as error:
            raise Bad(f"{where}: {error}") from None
        except (KeyError, ValueError, TypeError, AttributeError, struct.error, RecursionError) as error:
            raise Bad(f"{where}: it is not of the form of a record ({type(error).__name__}: {error})") from None
        records += 1
        sealed += line["key_id"] is not None
    if paths:
        raise Bad(f"there are proofs for records that are not there: {sorted(paths)[:5]}")
    if (manifest["records"], manifest["size"], manifest["root"]) != (records, size, root.hex()):
        raise Bad("the manifest tells of another number of records, or of another tree")
    runs = together.check("{kind}/{name}".format(**manifest["subject"]))
    grade = "unsigned" if signer is None else "signed" if pinned is not None else "signed by the key in it"
    return {
        "ok": True, "grade": grade, "key": signer, "journal_id": manifest["journal_id"], "subject": manifest["subject"],
        "records": records, "streams": len(together.last), "size": size, "root": root.hex(),
        "redacted": manifest["redacted"], "sealed": sealed, "runs": [together.standing(run) for run in runs],
    }  # fmt: skip


def _check_files(files: dict[str, bytes], listed: dict[str, str]) -> None:
    for name in sorted((files.keys() - {"manifest.json"}) ^ listed.keys()):
        raise Bad(f"{name} is not in the bundle" if name in listed else f"{name} is not listed in the manifest")
    for name in sorted(listed):
        if hashlib.sha256(files[name]).hexdigest() != listed[name]:
            raise Bad(f"{name} was changed since the bundle was made")


def _signed(files: dict[str, bytes], manifest: dict[str, Any], pinned: str | None) -> tuple[int, bytes, str | None]:
    """Size and root of the tree, and the key that signed them."""
    if "checkpoint.txt" not in files:
        if pinned is not None:
            raise Bad("the bundle holds no checkpoint: nobody has signed it")
        return int(manifest["size"]), unhex(manifest["root"]), None
    text = (pinned if pinned is not None else files["key.pub"].decode()).strip()
    return (*open_checkpoint(files["checkpoint.txt"].decode(), parse_key(text)), text)


# ---- the command


def main(arguments: list[str] | None = None) -> int:
    """Check what a command line names."""
    parser = argparse.ArgumentParser(prog="verify.py", description="Check an evidence bundle of Trouper, offline.")
    parser.add_argument("bundle", type=Path, help="the zip file, or the folder that it was unpacked into")
    parser.add_argument("--pub", help="the public key that must have signed it: its text, or a file that holds it")
    parser.add_argument("--show", action="store_true", help="print each record that holds, too")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    try:
        pinned = _key_given(given.pub)
        given.bundle.stat()
    except (Bad, OSError) as error:
        parser.error(str(error))
    try:
        files = read_files(given.bundle)
        found = check(files, pinned)
    except PermissionError as error:
        parser.error(str(error))
    except Exception as error:  # noqa: BLE001 -- whatever a file can bring about is a finding, and never a traceback
        reason = str(error) if isinstance(error, (Bad, OSError)) else f"not a bundle: {type(error).__name__}: {error}"
        found = {"ok": False, "problem": reason}
        sys.stdout.write(json.dumps(found) + "\n" if given.json else f"BAD: {_clean(reason)}\n")
        return 1
    if given.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return 0
    for line in lines_of(files, "records.jsonl") if given.show else ():
        sys.stdout.write(_told(line))
    sys.stdout.write("".join(f"{_clean(line)}\n" for line in _words(found)))
    return 0


def _key_given(given: str | None) -> str | None:
    """The key as text; a file's name stands for what is in it."""
    if given is None:
        return None
    text = given if "+" in given and not Path(given).is_file() else Path(given).read_text("utf-8")
    parse_key(text)
    return text


def _told(line: dict[str, Any]) -> str:
    head = f"{line['position']}  {line['recorded_at']}  {line['stream']} {line['version']}  {line['type']}"
    said = json.dumps({**line["facts"], **(line["content"] or {})}, ensure_ascii=False, indent=1)
    return f"{_clean(head)}\n" + "".join(f"    {_clean(each)}\n" for each in said.split("\n")[1:-1])


def _words(found: dict[str, Any]) -> Iterator[str]:
    yield {
        "signed": f"signed by {str(found['key']).partition('+')[0]}, whose key you gave",
        "signed by the key in it": f"signed by the key that came with it, {found['key']}: is it the one you know?",
        "unsigned": "NOT SIGNED: it agrees with itself, as it would if somebody had made it up",
    }[found["grade"]]
    yield (
        f"{found['subject']['kind']} {found['subject']['name']}: {found['records']} records in {found['streams']} "
        f"streams{', content withheld' if found['redacted'] else ''}, each in the tree over {found['size']} records"
    )
    if found["sealed"]:
        yield f"the content of {found['sealed']} of them is sealed: it is there, and told to whoever has the keys alone"
    yield f"journal {found['journal_id']}, root {found['root']}"
    for run in found["runs"]:
        end = "" if run["ended"] else "  NOT SHOWN TO ITS END"
        yield f"{run['stream']} up to version {run['version']}, at {run['recorded_at'][:19]}Z: {run['label']}{end}"
    yield "What came later is not here. Proven is what stands in records.jsonl (--show prints it), and that alone:"
    yield "report.html and the other files were NOT checked against it, and anybody may have changed them."


def _clean(text: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # What is cut off by `| head` is no error.
    sys.exit(main())
