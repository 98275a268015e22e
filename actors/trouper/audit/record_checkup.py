"""What a journal's records tell about its health, one record after the other, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from attrs import define, field

from trouper.audit.findings import Finding, Findings
from trouper.audit.secret_patterns import find_secrets
from trouper.core.run_events import DefinitionRecorded
from trouper_journal import (
    Archived,
    Damaged,
    EventRegistry,
    JournalCorrupt,
    Opened,
    Record,
    UnknownEvent,
    UnregisteredEvent,
    Withheld,
    references_of,
)

_SECOND: Final = 1_000_000_000
_JUMP: Final = _SECOND
"""How far the clock may go back between two records: several processes on one machine write."""

_FUTURE: Final = 300 * _SECOND
_PREFIX: Final = "definition/"


@define
class RecordCheckup:
    """Sees every record once.

    Attributes:
        registry: The events that this release knows.
        now: When the examination takes place, ns UTC.
        findings: Where to note what is found.
        values: Large values that records refer to.
        records: How many were seen.
        sealed: How many of them hold content that cannot be looked into here.
        erased: Of how many of those nobody can any more, because the key was destroyed.
    """

    registry: EventRegistry
    now: int
    findings: Findings
    values: set[bytes] = field(factory=set)
    records: int = 0
    sealed: int = 0
    erased: int = 0
    _last: int = 0
    _unknown: set[tuple[str, int]] = field(factory=set)
    _tools: set[tuple[str, str]] = field(factory=set)

    def see(self, record: Record) -> None:
        """Look at a record, with the large values that were read with it."""
        self.records += 1
        if isinstance(record, Archived):
            return  # of which nothing is here to look at
        if isinstance(record, Damaged):
            # That it is damaged is a finding of the verification; a secret in it is one all the same.
            if record.found is None:
                return
            record = record.found
        self.sealed += record.key_id is not None and not isinstance(record.opened, Opened)
        self.erased += isinstance(record.opened, Withheld) and record.opened.reason == "erased"
        self._check_clock(record)
        self._check_secrets(record)
        self._check_known(record)
        if record.stream.startswith(_PREFIX):
            self._check_tools(record)

    def _check_clock(self, record: Record) -> None:
        back = self._last - record.recorded_at
        if back > _JUMP:
            self.findings.add(
                Finding(
                    "clock",
                    "warn",
                    f"the clock went back by {back / _SECOND:,.0f} s before this record",
                    "keep the clocks of the machines that write here in step (NTP); the order of records is that of "
                    "their positions, whatever the times say",
                    record.stream,
                    record.position,
                )
            )
        if record.recorded_at > self.now + _FUTURE:
            self.findings.add(
                Finding(
                    "clock",
                    "warn",
                    f"the record is {(record.recorded_at - self.now) / _SECOND:,.0f} s in the future",
                    "set the clock of this machine, or of the one that wrote it",
                    record.stream,
                    record.position,
                )
            )
        self._last = record.recorded_at

    def _check_secrets(self, record: Record) -> None:
        content, values = record.content, record.values
        if record.key_id is not None:
            content, values = b"", self._sealed_values(record)
            if isinstance(record.opened, Opened):
                content, values = record.opened.content, {**values, **record.opened.values}
        parts = {"meta": record.meta, "facts": record.facts, "content": content}
        found = {(sighting, where) for where, data in parts.items() for sighting in find_secrets(data)}
        for digest, data in values.items():
            if digest not in self.values:
                self.values.add(digest)
                found |= {(sighting, "a large value") for sighting in find_secrets(data)}
        for sighting, where in sorted(found, key=repr):
            self.findings.add(
                Finding(
                    "secrets",
                    "bad",
                    f"what looks like a secret ({sighting.kind}, {sighting.length} characters) stands in {where} of "
                    f"{record.type}",
                    "have its issuer revoke it: whoever can read this journal, or a copy of it, has it. Give tools "
                    "their secrets by `secrets=`, which are in no record",
                    record.stream,
                    record.position,
                )
            )

    def _sealed_values(self, record: Record) -> Mapping[bytes, bytes]:
        """The large values that a sealed record refers to; what they say cannot be looked into without its key."""
        try:
            return {reference.digest: b"" for reference in references_of(record)}
        except JournalCorrupt:
            return {}  # which the check of all digests tells

    def _check_known(self, record: Record) -> None:
        try:
            known = self.registry.spec(record.type)
        except UnregisteredEvent:
            known = None
        newest = None if known is None else known.schema
        if newest is not None and record.schema <= newest:
            return
        if (record.type, record.schema) not in self._unknown:
            self._unknown.add((record.type, record.schema))
            self.findings.add(
                Finding(
                    "events",
                    "warn",
                    f"{record.type} schema {record.schema} is "
                    + ("unknown here" if newest is None else f"newer than {newest}, the newest known here"),
                    "use the release that wrote it: this one lists and verifies such records, but folds no run "
                    "with them",
                    record.stream,
                    record.position,
                )
            )

    def _check_tools(self, record: Record) -> None:
        try:
            event = self.registry.decode(record)
        except (UnknownEvent, JournalCorrupt):
            return
        for agent, tool in _undeclared(event):
            if (agent, tool) not in self._tools:
                self._tools.add((agent, tool))
                self.findings.add(
                    Finding(
                        "tools",
                        "note",
                        f"tool {tool} of agent {agent} counts as a write that nobody can look up (`unqueryable_write`)",
                        "declare its effect if it is another: after a crash a person must settle such calls",
                        record.stream,
                        record.position,
                    )
                )


def _undeclared(event: object) -> Iterator[tuple[str, str]]:
    document = event.document if isinstance(event, DefinitionRecorded) else None
    contract = document.get("contract") if isinstance(document, Mapping) else None
    tools = contract.get("tools") if isinstance(contract, Mapping) else None
    if isinstance(contract, Mapping) and isinstance(tools, Mapping):
        for name, tool in tools.items():
            if isinstance(tool, Mapping) and tool.get("effect") == "unqueryable_write":
                yield str(contract.get("name")), str(name)
