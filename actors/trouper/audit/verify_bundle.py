#!/usr/bin/env python3
"""Checks an evidence bundle of Trouper offline: ``python3 verify.py BUNDLE [--pub KEY]``.

One file, and nothing but Python's standard library (3.9 or later): read it before you trust it. It looks that

1. each record's leaf is that of its stored bytes, and what the bundle shows of it is what those bytes say,
2. each record is in the Merkle tree whose root is given (RFC 6962),
3. streams have no gaps from their beginning to the last record here (but those of ``system/``, of which only what
   concerns the bundle is in it),
4. the root and the number of records were signed (Ed25519, RFC 8032; notes and checkpoints as C2SP writes them),
   by the key that you give with ``--pub``. A key that comes with the bundle proves nothing about who made it.

It cannot see what is not there: records that followed the last one of a stream, and other streams.
Exit code 0: all of it holds; 1: something does not; 2: used wrongly.
"""

from __future__ import annotations

import argparse
import base64
import calendar
import hashlib
import json
import re
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

FORM = 1
_SHA256_EMPTY = hashlib.sha256(b"").digest()
_LIMIT = 1 << 31
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", re.ASCII)
_NUMBERED = ("form", "position", "version", "schema")
_FIELDS = {
    "form", "journal_id", "position", "stream", "version", "type", "schema", "recorded_at", "key", "label", "wake_at",
    "key_id", "leaf", "meta", "facts", "content", "raw",
}  # fmt: skip


class Bad(Exception):
    """Something in the bundle does not hold."""


# ---- Ed25519 (RFC 8032, section 5.1), for checking only: nothing here is secret, so that nothing need be constant-time

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
I = pow(2, (P - 1) // 4, P)  # noqa: E741 -- the RFC's name for the root of -1
Point = tuple[int, int, int, int]


def _add(one: Point, two: Point) -> Point:
    a = (one[1] - one[0]) * (two[1] - two[0]) % P
    b = (one[1] + one[0]) * (two[1] + two[0]) % P
    c = 2 * one[3] * two[3] * D % P
    d = 2 * one[2] * two[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(scalar: int, point: Point) -> Point:
    found: Point = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            found = _add(found, point)
        point = _add(point, point)
        scalar >>= 1
    return found


def _point(data: bytes) -> Point | None:
    """The point that 32 bytes stand for; None where they stand for none."""
    number = int.from_bytes(data, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * I % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _bytes_of(point: Point) -> bytes:
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


_B = _point(bytes([0x58]) + bytes([0x66]) * 31)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether an Ed25519 signature is that of a message by a key."""
    point = _point(public) if len(public) == 32 else None
    if point is None or _B is None or len(signature) != 64:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    if scalar >= L:
        return False
    hashed = hashlib.sha512(signature[:32] + public + message).digest()
    challenge = int.from_bytes(hashed, "little") % L
    negative = (P - point[0], point[1], point[2], P - point[3])
    return _bytes_of(_add(_times(scalar, _B), _times(challenge, negative))) == signature[:32]


# ---- signed notes and checkpoints (c2sp.org/signed-note, c2sp.org/tlog-checkpoint)


def parse_key(text: str) -> tuple[str, bytes, bytes]:
    """A public key as text: name, key id, 32 bytes."""
    name, _, rest = text.strip().partition("+")
    given, _, encoded = rest.partition("+")
    data = _unbase64(encoded, "the public key")
    if not name or len(data) != 33 or data[0] != 1:
        raise Bad("this is not the public key of a journal, such as NAME+0123abcd+AX3...")
    identity = hashlib.sha256(name.encode() + b"\n" + data).digest()[:4]
    if identity.hex() != given:
        raise Bad("the public key does not have the id that stands in it: it was changed")
    return name, identity, data[1:]


def open_checkpoint(note: str, key: tuple[str, bytes, bytes]) -> tuple[int, bytes]:
    """Size and root of a checkpoint, once its signature by the key was checked."""
    body, blank, lines = note.rpartition("\n\n")
    name, identity, public = key
    if not blank:
        raise Bad("the checkpoint is not a signed note")
    text = body + "\n"
    for line in lines.splitlines():
        dash, _, rest = line.partition(" ")
        signer, _, encoded = rest.partition(" ")
        data = _unbase64(encoded, "a signature of the checkpoint")
        if dash == "\N{EM DASH}" and signer == name and data[:4] == identity:
            if not is_signed(public, text.encode(), data[4:]):
                raise Bad(f"the signature of {name} is not one of this checkpoint")
            break
    else:
        raise Bad(f"the checkpoint was not signed by {name}")
    parts = text.split("\n")
    if len(parts) < 4 or parts[0] != name or not (parts[1].isascii() and parts[1].isdigit()):
        raise Bad(f"what {name} signed is not a checkpoint of its own")
    root = _unbase64(parts[2], "the root of the checkpoint")
    if len(root) != 32:
        raise Bad("the root of the checkpoint is not a digest")
    return int(parts[1]), root


# ---- the Merkle tree (RFC 9162, section 2.1.3.2)


def root_of(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """The root that an inclusion proof leads to."""
    if not 0 <= index < size:
        raise Bad(f"a tree of {size} records has none at position {index + 1}")
    first, last, node = index, size - 1, leaf
    for each in path:
        if last == 0:
            raise Bad("the proof is too long")
        if first & 1 or first == last:
            node = hashlib.sha256(b"\1" + each + node).digest()
            while not first & 1 and first:
                first >>= 1
                last >>= 1
        else:
            node = hashlib.sha256(b"\1" + node + each).digest()
        first >>= 1
        last >>= 1
    if last:
        raise Bad("the proof is too short")
    return node


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


class Unpacker:
    """Reads MessagePack as the journal writes it, into JSON as the bundle writes it."""

    def __init__(self, data: bytes, values: dict[str, bytes]) -> None:
        self.data = data
        self.values = values
        self.place = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        found = self.data[self.place : self.place + count]
        if len(found) != count:
            raise Bad("stored bytes end in the middle of a value")
        self.place += count
        return found

    def number(self, form: str) -> Any:
        """The next number."""
        (found,) = struct.unpack(">" + form, self.take(struct.calcsize(form)))
        return found

    def value(self) -> Any:
        """The next value."""
        kind: int = self.take(1)[0]
        if kind < 0x80:
            return kind
        if kind >= 0xE0:
            return kind - 256
        if kind < 0x90:
            return self.map(kind & 15)
        if kind < 0xA0:
            return [self.value() for _ in range(kind & 15)]
        if kind < 0xC0:
            return self.text(kind & 31)
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind in _SIZED:
            form, read = _SIZED[kind]
            return read(self, self.number(form))
        if 0xD4 <= kind <= 0xD8:
            return self.extension(1 << (kind - 0xD4))
        raise Bad(f"stored bytes hold what no value begins with: {kind:#x}")

    def text(self, size: int) -> str:
        """A text."""
        return self.take(size).decode("utf-8", "surrogatepass")

    def binary(self, size: int) -> dict[str, str]:
        """Bytes."""
        return {"$bytes": base64.b64encode(self.take(size)).decode()}

    def array(self, size: int) -> list[Any]:
        """A list."""
        return [self.value() for _ in range(size)]

    def map(self, size: int) -> dict[str, Any]:
        """A map."""
        found: dict[str, Any] = {}
        for _ in range(size):
            key = self.value()
            if not isinstance(key, str) or key in found:
                raise Bad("a stored map has a key that is no text, or stands twice")
            found["$" + key if key.startswith("$") else key] = self.value()
        return found

    def extension(self, size: int) -> Any:
        """A large integer, or a value that is stored apart."""
        kind = self.number("b")
        data = self.take(size)
        if kind == 1:
            return int.from_bytes(data, "big", signed=True)
        apart = self.values.get(data[:32].hex())
        if kind != 2 or size != 40:
            raise Bad("stored bytes hold an unknown kind of value")
        if apart is None or hashlib.sha256(apart).digest() + len(apart).to_bytes(8, "big") != data:
            raise Bad("a value that is stored apart is missing, or is not the one that was stored")
        return unpacked(apart[16:], {})


_SIMPLE = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: "f", 0xCB: "d", 0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q",
}  # fmt: skip
_SIZED: dict[int, tuple[str, Callable[[Unpacker, int], Any]]] = {
    0xC4: ("B", Unpacker.binary), 0xC5: ("H", Unpacker.binary), 0xC6: ("I", Unpacker.binary),
    0xC7: ("B", Unpacker.extension), 0xC8: ("H", Unpacker.extension), 0xC9: ("I", Unpacker.extension),
    0xD9: ("B", Unpacker.text), 0xDA: ("H", Unpacker.text), 0xDB: ("I", Unpacker.text),
    0xDC: ("H", Unpacker.array), 0xDD: ("I", Unpacker.array), 0xDE: ("H", Unpacker.map), 0xDF: ("I", Unpacker.map),
}  # fmt: skip


def unpacked(data: bytes, values: dict[str, bytes]) -> Any:
    """The one value that bytes hold."""
    unpacker = Unpacker(data, values)
    found = unpacker.value()
    if unpacker.place != len(data):
        raise Bad("stored bytes hold more than one value")
    return found


def check_record(line: dict[str, Any], redacted: bool) -> bytes:
    """Check that a record is what its stored bytes say; its leaf."""
    raw = line["raw"]
    meta, facts = _unbase64(raw["meta"], "meta"), _unbase64(raw["facts"], "facts")
    if "content" in raw:
        content = _unbase64(raw["content"], "content")
        values = {key: _unbase64(data, "a value") for key, data in raw["values"].items()}
        digest = hashlib.sha256(content).digest()
        shown = _shown(line, content, values)
    elif redacted:
        digest = _unhex(raw["content_sha256"])
        shown = None if digest == _SHA256_EMPTY else {"$withheld": True}
        shown = {"$erased": True} if line["key_id"] is not None else shown
    else:
        raise Bad("its content is missing, and the bundle does not say that it was withheld")
    for key, said in (("meta", _map(meta)), ("facts", _map(facts)), ("content", shown)):
        if not _same(line[key], said):
            raise Bad(f"what is shown as its {key} is not what was stored")
    leaf = leaf_of(line, hashlib.sha256(meta).digest(), hashlib.sha256(facts).digest(), digest)
    if leaf.hex() != line["leaf"]:
        raise Bad("its digest is not that of the stored bytes")
    return leaf


def _shown(line: dict[str, Any], content: bytes, values: dict[str, bytes]) -> Any:
    if line["key_id"] is not None:
        return {"$erased": True}
    if not content:
        return None
    if len(content) <= 16:
        raise Bad("its content is shorter than its random bytes")
    return unpacked(content[16:], values)


def _map(data: bytes) -> Any:
    return unpacked(data, {}) if data else {}


def _same(one: Any, two: Any) -> bool:
    # As texts, because in these 1, 1.0 and true differ.
    return json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)


def _unbase64(text: str, what: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        data, text = b"", "?"
    if base64.b64encode(data).decode() != text:
        raise Bad(f"{what} is not base64")
    return data


def _unhex(text: str) -> bytes:
    data = bytes.fromhex(text)
    if data.hex() != text or len(data) != 32:
        raise Bad("a digest is not 32 bytes in hexadecimal")
    return data


# ---- the bundle


class Bundle:
    """The files of a bundle, in a zip file or unpacked in a folder."""

    def __init__(self, place: Path | IO[bytes]) -> None:
        self.folder = place if isinstance(place, Path) and place.is_dir() else None
        self.zip = None if self.folder is not None else zipfile.ZipFile(place)

    def names(self) -> list[str]:
        """What files there are."""
        if self.zip is not None:
            return self.zip.namelist()
        folder = self.folder or Path()
        return [each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()]

    def read(self, name: str) -> bytes:
        """A file."""
        if self.zip is None:
            return (self.folder or Path()).joinpath(name).read_bytes()
        if self.zip.getinfo(name).file_size > _LIMIT:
            raise Bad(f"{name} is larger than any bundle holds")
        return self.zip.read(name)

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The objects of a file of JSON lines."""
        for number, line in enumerate(self.read(name).split(b"\n"), 1):
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


def check(bundle: Bundle, pinned: str | None) -> dict[str, Any]:
    """Check a bundle; what was found."""
    manifest = json.loads(bundle.read("manifest.json"), object_pairs_hook=_once)
    if manifest.get("bundle") != FORM:
        raise Bad("this is not a bundle of a form that this program knows: take a newer one")
    _check_files(bundle, manifest)
    size, root, grade = _signed(bundle, manifest, pinned)
    paths = {line["position"]: [_unhex(each) for each in line["path"]] for line in bundle.lines("proofs.jsonl")}
    versions: dict[str, int] = {}
    position = records = 0
    for line in bundle.lines("records.jsonl"):
        where = f"record {line.get('position')}"
        try:
            if line.keys() != _FIELDS or any(type(line[key]) is not int for key in _NUMBERED):
                raise Bad("it has other fields than a record has, or a number that is none")
            if line["journal_id"] != manifest["journal_id"] or line["form"] != FORM:
                raise Bad("it is of another journal, or of an unknown form")
            if line["position"] <= position:
                raise Bad("it does not stand behind the record before it")
            position = line["position"]
            leaf = check_record(line, bool(manifest["redacted"]))
            if root_of(leaf, position - 1, size, paths.pop(position)) != root:
                raise Bad("it is not in the tree that was signed" if "signed" in grade else "it is not in the tree")
            if line["version"] != versions.get(line["stream"], 0) + 1 and not line["stream"].startswith("system/"):
                raise Bad(f"version {versions.get(line['stream'], 0) + 1} of its stream is missing before it")
        except Bad as error:
            raise Bad(f"{where}: {error}") from None
        except (KeyError, ValueError, TypeError, AttributeError, struct.error, RecursionError) as error:
            raise Bad(f"{where}: it is not of the form of a record ({type(error).__name__}: {error})") from None
        versions[line["stream"]] = line["version"]
        records += 1
    subject = manifest["subject"]
    if f"{subject['kind']}/{subject['name']}" not in versions:
        raise Bad(f"there is no record of {subject['kind']} {subject['name']}")
    if paths:
        raise Bad(f"there are proofs for records that are not there: {sorted(paths)[:5]}")
    return {
        "ok": True, "grade": grade, "journal_id": manifest["journal_id"], "subject": subject, "records": records,
        "streams": len(versions), "size": size, "root": root.hex(), "redacted": bool(manifest["redacted"]),
    }  # fmt: skip


def _check_files(bundle: Bundle, manifest: dict[str, Any]) -> None:
    listed = manifest["files"]
    there = set(bundle.names()) - {"manifest.json"}
    if len(bundle.names()) != len(set(bundle.names())):
        raise Bad("a file stands twice in the bundle")
    for name in sorted(there ^ set(listed)):
        raise Bad(f"{name} is not in the bundle" if name in listed else f"{name} is not listed in the manifest")
    for name in sorted(listed):
        if hashlib.sha256(bundle.read(name)).hexdigest() != listed[name]:
            raise Bad(f"{name} was changed since the bundle was made")


def _signed(bundle: Bundle, manifest: dict[str, Any], pinned: str | None) -> tuple[int, bytes, str]:
    """Size and root of the tree, and how far they can be trusted."""
    if "checkpoint.txt" not in manifest["files"]:
        if pinned is not None:
            raise Bad("the bundle holds no checkpoint: nobody has signed it")
        return int(manifest["size"]), _unhex(manifest["root"]), "self-consistent: nobody has signed it"
    text = pinned if pinned is not None else bundle.read("key.pub").decode()
    key = parse_key(text)
    size, root = open_checkpoint(bundle.read("checkpoint.txt").decode(), key)
    if pinned is None:
        return size, root, f"signed by the key that came with it, {text.strip()}: compare that with the one you know"
    return size, root, f"signed by {key[0]}, whose key you gave"


def main(arguments: list[str] | None = None) -> int:
    """Check what a command line names."""
    parser = argparse.ArgumentParser(description="Check an evidence bundle of Trouper, offline.")
    parser.add_argument("bundle", type=Path, help="the zip file, or the folder that it was unpacked into")
    parser.add_argument("--pub", help="the public key that must have signed it: its text, or a file that holds it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    try:
        pinned = given.pub
        if pinned is not None and Path(pinned).is_file():
            pinned = Path(pinned).read_text("utf-8")
        found = check(Bundle(given.bundle), pinned)
    except Exception as error:  # noqa: BLE001 -- whatever a file can bring about is a finding, and never a traceback
        reason = str(error) if isinstance(error, (Bad, OSError)) else f"not a bundle: {type(error).__name__}: {error}"
        found = {"ok": False, "problem": reason}
    if given.json:
        sys.stdout.write(json.dumps(found) + "\n")
    elif found["ok"]:
        subject = found["subject"]
        sys.stdout.write(
            f"{found['grade']}\n{subject['kind']} {_clean(subject['name'])}: {found['records']} records in "
            f"{found['streams']} streams{', content withheld' if found['redacted'] else ''}, each of them in the tree "
            f"over {found['size']} records\njournal {found['journal_id']}, root {found['root']}\n"
            "proven is what stands in records.jsonl; report.html tells the same to people, and is not proven\n"
        )
    else:
        sys.stdout.write(f"BAD: {_clean(found['problem'])}\n")
    return 0 if found["ok"] else 1


def _clean(text: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


if __name__ == "__main__":
    sys.exit(main())
