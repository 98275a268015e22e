"""Evidence bundles: one zip file about a run or session that proves what it shows, to somebody who has nothing else.

It holds the records with their stored bytes, a proof for each that it is in the journal's Merkle tree, the tree's root
as it was signed, a report to read, and the program that checks all of that offline. ``docs/exports.md`` tells the form.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import IO, Final

from attrs import define, field, frozen

from trouper.audit.lines import LineOptions, record_line
from trouper.audit.report import ReportOptions, write_report
from trouper.audit.subjects import Subject, all_records
from trouper.audit.verifier import verifier_source
from trouper.errors import BundleError
from trouper.narration.plain import moment
from trouper_journal import Archived, Journal, Plain, Verification
from trouper_journal.proofs import Inclusion, prove_inclusion
from trouper_journal.signing import CheckpointMismatch, SignedCheckpoint, VerifierKey

FORM: Final = 1
"""Number of the form; raised when an old verifier would read a new bundle wrongly."""

_README: Final = """\
This is evidence about one {kind} of an agent, taken from a journal of Trouper.

records.jsonl     the records, one a line, with the bytes that were stored: this is the evidence.
report.html       the same to read, in any browser; it loads nothing and runs nothing. It is not checked: whoever had
                  this file could have changed it. `python3 verify.py THIS.zip --show` prints what is proven.
proofs.jsonl      for each record the proof that it is in the journal's Merkle tree (RFC 6962).
checkpoint.txt    how many records the journal had and the root of the tree, signed (there only if it was signed).
key.pub           the public key of whoever signed (likewise).
manifest.json     what the bundle is about, and the SHA-256 of each file.
verify.py         checks all of that, offline; it needs Python 3.9 or later and nothing else.

    python3 verify.py THIS.zip --pub KEY

KEY is the public key as you know it from elsewhere. Without --pub the key in this bundle is taken, which says nothing
about who made it. Better still, take verify.py from elsewhere, too: it comes with Trouper.
"""


@frozen(slots=False, repr=False, eq=False)
class BundleOptions(Plain):
    """What goes into a bundle beside the records.

    Attributes:
        made_at: When it was made, ns UTC.
        signed: The checkpoint that proofs are for; None: for the journal as it is now, which nobody has signed.
        key: The public key that signed it.
        verification: What a check of the whole journal found; None where none was made.
        redact: Leave out what people, models and tools said; the digests of it stay, and bind it.
    """

    made_at: int
    signed: SignedCheckpoint | None = None
    key: VerifierKey | None = None
    verification: Verification | None = None
    redact: bool = False


async def write_bundle(
    journal: Journal,
    subject: Subject,
    file: IO[bytes],
    options: BundleOptions,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the evidence bundle of a run or session.

    Memory grows with the subject, not with the journal; time with both, because proofs are made from all leaves.
    Cancelling leaves an incomplete file.

    Args:
        journal: The journal, opened with the registry of the runtime's events.
        subject: The run or session.
        file: A file to write to.
        options: What goes in beside.
        progress: Called now and then with how far the proofs are.

    Returns:
        How many records are in it.

    Raises:
        UnknownRun, UnknownSession: The journal has no such subject.
        CheckpointMismatch: The checkpoint is not one of this journal.
        BundleError: The checkpoint is older than some of the records, or some were archived.
        JournalCorrupt: A record is damaged: nothing can be proven with it.
        StorageBusy, JournalBroken: The storage cannot be read.
    """
    size = await journal.position() if options.signed is None else options.signed.checkpoint.size
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        writer = _Writer(archive, datetime.fromtimestamp(options.made_at // 1_000_000_000, UTC))
        positions = await _write_records(journal, subject, writer, options, size)
        proofs = await prove_inclusion(journal, positions, size=size, progress=progress)
        if options.signed is not None and proofs.root != options.signed.checkpoint.root:
            message = "the journal is not the one that was signed: `trouper verify --pub` tells more"
            raise CheckpointMismatch(message, size)
        with writer.open("proofs.jsonl") as write:
            for position, path in proofs.paths.items():
                write(json.dumps({"position": position, "path": [each.hex() for each in path]}) + "\n")
        with writer.open("report.html") as write:
            # It tells no more than what is proven beside it: not what is sealed there, nor what came meanwhile.
            about = ReportOptions(options.made_at, options.verification, options.redact, sealed=False, upto=size)
            await write_report(journal, subject, lambda piece: write(piece + "\n"), about)
        _write_rest(writer, subject, options)
        manifest = _manifest(journal.id, subject, options, proofs, writer.digests)
        with writer.open("manifest.json") as write:
            write(json.dumps(manifest, indent=2) + "\n")
    return len(positions)


@define(eq=False, repr=False)
class _Writer:
    """Writes files into a zip file, and remembers their digests."""

    archive: zipfile.ZipFile
    made_at: datetime
    digests: dict[str, str] = field(factory=dict)

    @contextmanager
    def open(self, name: str) -> Iterator[Callable[[str], None]]:
        """A file, for the length of a block; gives a function that adds text to it."""
        made = self.made_at.timetuple()[:6]
        # A zip file cannot tell of times before its own beginning.
        entry = zipfile.ZipInfo(name, max(made, (1980, 1, 1, 0, 0, 0)))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        digest = hashlib.sha256()
        with self.archive.open(entry, "w", force_zip64=True) as file:

            def write(text: str) -> None:
                data = text.encode()
                digest.update(data)
                file.write(data)

            yield write
        self.digests[name] = digest.hexdigest()


async def _write_records(
    journal: Journal, subject: Subject, writer: _Writer, options: BundleOptions, size: int
) -> list[int]:
    lines = LineOptions(raw=True, redact=options.redact)
    positions: list[int] = []
    beyond = 0
    with writer.open("records.jsonl") as write:
        async with aclosing(all_records(journal, subject)) as records:
            async for record in records:
                if record.position > size:
                    beyond += 1
                    continue
                if isinstance(record, Archived):
                    raise BundleError(
                        f"position {record.position} was archived to {record.file}: have that beside the journal"
                    )
                write(record_line(journal.id, record, lines) + "\n")
                positions.append(record.position)
    if beyond and options.signed is not None:
        raise BundleError(
            f"{beyond:,} records of {subject.kind} {subject.name} came after the checkpoint of {size:,} records: "
            "sign a new one, with `trouper checkpoint`"
        )
    return positions


def _write_rest(writer: _Writer, subject: Subject, options: BundleOptions) -> None:
    rest = {"verify.py": verifier_source(), "README.txt": _README.format(kind=subject.kind)}
    if options.signed is not None:
        rest["checkpoint.txt"] = str(options.signed.note)
    if options.signed is not None and options.key is not None:
        rest["key.pub"] = f"{options.key}\n"
    for name, text in rest.items():
        with writer.open(name) as write:
            write(text)


def _manifest(
    journal_id: bytes, subject: Subject, options: BundleOptions, proofs: Inclusion, digests: Mapping[str, str]
) -> dict[str, object]:
    return {
        "bundle": FORM,
        "journal_id": journal_id.hex(),
        "subject": {"kind": subject.kind, "name": subject.name},
        "made_at": moment(options.made_at),
        "records": len(proofs.paths),
        "size": proofs.size,
        "root": proofs.root.hex(),
        "redacted": options.redact,
        "files": dict(digests),
    }
