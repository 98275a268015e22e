"""Examine a journal: the file, its records and its runs, with advice for whatever is found.

Works on the file alone, opened for reading only, also beside a daemon. What was archived or sealed is passed over, and
said to be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from trouper.audit.copies import standing_or_none
from trouper.audit.findings import Finding, Findings
from trouper.audit.record_checkup import RecordCheckup
from trouper.audit.run_checkup import Patience, RunCheckup
from trouper.narration.text import count
from trouper_journal import Journal, JournalCorrupt, JournalError, Plain
from trouper_journal.checkup import FileHealth, check_file, stored_values
from trouper_journal.rollback import check_log

Progress = Callable[[str, int, int], None]

CHECKS: Final = (
    "file", "log", "copy", "integrity", "guards", "records", "events", "clock", "secrets", "values", "tools",
    "runs", "approvals", "doubts", "drift",
)  # fmt: skip
"""What is examined, in this order."""

_LOG: Final = 64 * 1024 * 1024
"""Bytes; SQLite begins to fold its log into the file at 4 MB."""


@frozen(slots=False, repr=False, eq=False)
class Examination(Plain):
    """What was found.

    Attributes:
        journal_id: The journal's id in hexadecimal.
        records: How many records it has.
        runs: How many runs.
        sealed: How many records hold content that could not be looked into.
        findings: What was found, in the order of the checks, the worst first.
        unlisted: How many findings of a check and a severity are not among them, because there are too many.
    """

    journal_id: str
    records: int
    runs: int
    sealed: int
    findings: tuple[Finding, ...]
    unlisted: tuple[tuple[str, str, int], ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is bad; there may be warnings."""
        return not any(finding.severity == "bad" for finding in self.findings)


async def examine(
    journal: Journal,
    *,
    now: int,
    driven: bool | None = None,
    patience: Patience | None = None,
    progress: Progress | None = None,
) -> Examination:
    """Examine a journal that was opened with ``read_only=True``.

    Reads all of it, twice. Memory grows by 32 bytes for each large value and with the findings, not with the records.

    Args:
        journal: The journal, opened with the registry of this release's events.
        now: The present moment, ns UTC.
        driven: Whether a process drives it; None where that is not known.
        patience: How long is long.
        progress: Called with what goes on, how much of it is done, and of how much.

    Raises:
        TypeError: The journal was not opened for reading only.
        StorageUnreadable, StorageBusy, JournalBroken: It cannot be read; damage is a finding instead.
    """
    told: Progress = progress or (lambda _what, _done, _total: None)
    findings = Findings()
    _judge_file(await check_file(journal), driven, findings)
    await _judge_copy(journal, findings)
    verification = await journal.verify(lambda done, total: told("verifying", done, total))
    for problem in verification.problems:
        findings.add(
            Finding(
                "records", "bad", problem.message,
                "keep the file as it is, and compare it with a backup: `trouper verify` tells more",
                problem.stream, problem.position,
            )
        )  # fmt: skip
    records = RecordCheckup(journal.registry, now, findings)
    # What is damaged was found above; the rest can be looked through all the same.
    readable = journal.past_damage(lambda _: None)
    await _judge_records(readable, records, findings, told)
    runs = RunCheckup(readable, now, driven, findings, patience or Patience())
    try:
        await runs.run(lambda done, all_: told("looking at runs", done, all_))
    except JournalCorrupt as error:
        message = f"runs behind {runs.runs:,} could not be looked at: {error}"
        findings.add(Finding("runs", "bad", message, "`trouper verify` tells more", position=error.position))
    return Examination(
        journal.id.hex(),
        records.records,
        runs.runs,
        records.sealed,
        tuple(sorted(findings.listed, key=_rank)),
        tuple(findings.unlisted()),
    )


def _rank(finding: Finding) -> tuple[int, int]:
    return ("bad", "warn", "note").index(finding.severity), CHECKS.index(finding.check)


def _judge_file(health: FileHealth, driven: bool | None, findings: Findings) -> None:
    if health.mode & 0o002:
        findings.add(
            Finding(
                "file", "bad", f"everybody on this machine may write to the file (mode {health.mode:o})",
                "take that away: chmod o-w",
            )
        )  # fmt: skip
    elif health.mode & 0o004:
        findings.add(
            Finding(
                "file", "note", f"everybody on this machine may read what was said (mode {health.mode:o})",
                "chmod o-r, unless that is meant",
            )
        )  # fmt: skip
    if health.log is not None and health.log > _LOG:
        findings.add(
            Finding(
                "log", "warn", f"the log beside the file has {health.log:,} bytes (the file: {health.size:,})",
                "somebody reads for very long, or a copy is being made: end that, and it shrinks by itself",
            )
        )  # fmt: skip
    elif health.log and driven is False:
        findings.add(
            Finding(
                "log", "note", f"{health.log:,} bytes of the journal stand in the log beside the file alone",
                "keep the two together; whoever next opens the journal to write folds them into one",
            )
        )  # fmt: skip
    for complaint in health.complaints:
        findings.add(
            Finding("integrity", "bad", complaint, "keep the file as it is, and go on with a backup that verifies")
        )
    for name in health.missing:
        findings.add(
            Finding(
                "guards", "bad", f"{name} is missing from the file",
                "somebody has changed it with another program: compare it with a backup, and look at `trouper verify`",
            )
        )  # fmt: skip
    for name in health.altered:
        findings.add(
            Finding(
                "guards", "bad", f"{name} is not as a journal has it",
                "somebody has changed it with another program: compare the journal with a backup",
            )
        )  # fmt: skip
    for name in health.strange:
        findings.add(
            Finding(
                "guards", "bad", f"{name} is none of a journal's tables, indexes and triggers",
                "somebody has added it with another program: find out what it does, and compare with a backup",
            )
        )  # fmt: skip


async def _judge_copy(journal: Journal, findings: Findings) -> None:
    try:
        await check_log(journal)
    except JournalCorrupt as error:
        advice = "put the copy in its place again, without the log of another file, and look at the findings after that"
        findings.add(Finding("log", "bad", str(error), advice, position=error.position))
    except JournalError:
        return
    stands = await standing_or_none(journal)
    if stands is None or stands.found.state in ("matches", "missing"):
        return
    if stands.bad:
        advice = "put a newer copy in its place if there is one; else accept it: `trouper restore --accept`"
        findings.add(Finding("copy", "bad", stands.text, advice))
    elif stands.accepted is not None:
        advice = "nothing: what was under way in it becomes unknown, and its runs go on, when a runtime opens it"
        message = f"{stands.text}; that was accepted"
        findings.add(Finding("copy", "note", message, advice, position=stands.accepted))
    else:
        advice = "nothing: a runtime that opens the journal keeps that file aside, and writes a new one"
        findings.add(Finding("copy", "warn", stands.text, advice))


async def _judge_records(journal: Journal, records: RecordCheckup, findings: Findings, told: Progress) -> None:
    total = await journal.position()
    try:
        async for record in journal.read_all():
            records.see(record)
            if records.records % 1000 == 0:
                told("looking through records", records.records, total)
        await _judge_values(journal, records, findings)
    except JournalCorrupt as error:
        message = f"records behind {records.records:,} could not be looked through: {error}"
        findings.add(Finding("records", "bad", message, "`trouper verify` tells more", position=error.position))
    if records.erased:
        message = f"{count(records.erased, 'record')} with content that was erased could not be looked through"
        findings.add(Finding("secrets", "note", message, "nothing: nobody can read it any more"))
    if sealed := records.sealed - records.erased:
        message = f"{count(sealed, 'record')} with content that is sealed could not be looked through"
        findings.add(Finding("secrets", "note", message, "look through them where their keys are"))


async def _judge_values(journal: Journal, records: RecordCheckup, findings: Findings) -> None:
    number = size = 0
    async for digest, length in stored_values(journal):
        if digest not in records.values:
            number, size = number + 1, size + length
    if number:
        findings.add(
            Finding(
                "values", "note", f"no record refers to {number:,} of the large values ({size:,} bytes)",
                "they do no harm; an archive leaves them behind",
            )
        )  # fmt: skip
