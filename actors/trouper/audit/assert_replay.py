"""``assert_replays``: new code against old journals, for the test suites of whoever has agents in production."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import outcome
import trio
from attrs import frozen

from trouper.agent import Agent
from trouper.audit.refold import RUN
from trouper.audit.replay_report import ReplayProblem, RunFacts, StreamReplay
from trouper.audit.replaying import replay_streams
from trouper.core.definition import differences, stream_of
from trouper.core.events import REGISTRY, DefinitionRecorded
from trouper.errors import TrouperError
from trouper.narration.text import value_text
from trouper.runtime import DriftPolicy
from trouper.runtime.opening import by_name
from trouper_journal import Erased, Journal, Plain, Value

if TYPE_CHECKING:
    from trouper_journal.sealing import KeyStore

_SHOWN: Final = 20


@frozen(slots=False, repr=False, eq=False)
class Drift(Plain):
    """A run under way whose agent is not defined as it was when the run began.

    Attributes:
        run: The run.
        agent: Its agent's name.
        what: ``contract``, ``prose``, or ``agent`` where no agent of that name was given.
        changes: Where the definitions differ, one line each; empty where the recorded one cannot be read.
        held: Whether a runtime with the same policy would hold the run for it.
    """

    run: str
    agent: str
    what: tuple[str, ...]
    changes: tuple[str, ...]
    held: bool


@frozen(slots=False, repr=False, eq=False)
class Replayed(Plain):
    """A journal that replays.

    Attributes:
        runs: How many runs were folded.
        records: How many records, those of other streams among them.
        not_compared: How many runs could not be compared, or not to the end: content is erased, they follow rules that
            this release does not have, or they are in an archive.
        drifts: Runs under way whose agents changed in ways that do not hold them.
    """

    runs: int
    records: int
    not_compared: int
    drifts: tuple[Drift, ...]


class ReplayFailed(TrouperError, AssertionError):
    """A journal does not replay, or runs in it would be held under today's agents.

    Attributes:
        problems: What was found in the journal's streams, the first of each.
        drifts: Runs that would be held.
    """

    def __init__(self, path: str, problems: Sequence[ReplayProblem], drifts: Sequence[Drift]) -> None:
        lines = [line for problem in problems[:_SHOWN] for line in _problem_lines(problem)]
        lines += [_drift_line(drift) for drift in drifts[:_SHOWN]]
        more = max(0, len(problems) - _SHOWN) + max(0, len(drifts) - _SHOWN)
        if more:
            lines.append(f"and {more} more")
        super().__init__("\n".join([f"{path} does not replay:", *lines]))
        self.problems = tuple(problems)
        self.drifts = tuple(drifts)


def assert_replays(
    journal_path: str | os.PathLike[str],
    agents: Sequence[Agent] | None = None,
    *,
    drift: DriftPolicy | None = None,
    archives: Sequence[str | os.PathLike[str]] = (),
    keys: KeyStore | None = None,
    jobs: int | None = None,
) -> Replayed:
    """Assert that this release, and today's agents, go on where a journal stands.

    Folds every run of the journal again, from its records alone, and checks that the rules take the recorded steps.
    Nothing is run, asked or written. May be called from any test, also from within a Trio run, which it then blocks.

    Args:
        journal_path: The journal's file.
        agents: Today's agents, sub-agents that are among their tools included: then runs that are not over are also
            checked for drift, as a runtime would when it took them up.
        drift: The runtime's policy; a run that it would hold fails the assertion. By default a changed contract holds,
            changed prose does not.
        archives: Archives of the journal; without them what was archived is counted as not compared.
        keys: Opens content that is sealed; without them its runs are folded, and counted as not compared.
        jobs: How many processes work; by default as many as there are cores, where there is much to do.

    Raises:
        ReplayFailed: It does not replay, or runs would be held. It is an ``AssertionError``.
        DefinitionError: The agents cannot be registered together.
        ArchiveRefused: An archive is not this journal's.
        JournalError, OSError: The file cannot be opened or read.
    """
    known = None if agents is None else by_name(agents)
    policy = drift or DriftPolicy()
    results: list[outcome.Outcome[Replayed]] = []

    def work() -> None:
        means = _Means([os.fspath(archive) for archive in archives], keys, jobs)
        results.append(outcome.capture(trio.run, _check, os.fspath(journal_path), known, policy, means))

    # A thread of its own, because there may be a Trio run in this one.
    thread = threading.Thread(target=work, name="assert_replays")
    thread.start()
    thread.join()
    return results[0].unwrap()


@frozen
class _Means:
    archives: Sequence[str]
    keys: KeyStore | None
    jobs: int | None


async def _check(path: str, agents: Mapping[str, Agent] | None, policy: DriftPolicy, means: _Means) -> Replayed:
    problems: list[ReplayProblem] = []
    drifted: list[tuple[str, RunFacts]] = []
    runs = records = partly = 0
    async with aclosing(replay_streams(path, archives=means.archives, keys=means.keys, jobs=means.jobs)) as results:
        async for each in results:
            records += each.records
            runs += each.run is not None
            partly += each.not_compared is not None
            if each.problem is not None:
                problems.append(each.problem)
            if agents is not None and (facts := _drifted(each, agents)) is not None:
                drifted.append((each.stream.removeprefix(RUN), facts))
    drifts: list[Drift] = []
    if agents is not None and drifted:
        async with Journal.open(path, registry=REGISTRY, keys=means.keys, read_only=True) as journal:
            drifts = [await _drift(journal, run, facts, agents.get(facts.agent), policy) for run, facts in drifted]
    held = [each for each in drifts if each.held]
    if problems or held:
        raise ReplayFailed(path, problems, held)
    return Replayed(runs, records, partly, tuple(drifts))


def _drifted(replay: StreamReplay, agents: Mapping[str, Agent]) -> RunFacts | None:
    facts = replay.run
    if facts is None or facts.ended or not facts.agent:
        return None
    agent = agents.get(facts.agent)
    if agent is not None and (not facts.started or agent.definition.digest == facts.definition):
        return None
    return facts


async def _drift(journal: Journal, run: str, facts: RunFacts, agent: Agent | None, policy: DriftPolicy) -> Drift:
    if agent is None:
        return Drift(run, facts.agent, ("agent",), (), held=True)
    now = agent.definition
    what = ["contract"] if facts.contract != now.contract_digest else []
    what += ["prose"] if facts.prose != now.prose_digest else []
    held = any({"contract": policy.contract, "prose": policy.prose}[part] == "wait" for part in what)
    recorded = await _document(journal, facts.definition)
    changes = () if recorded is None else tuple(differences(recorded, now.document))
    return Drift(run, facts.agent, tuple(what), changes, held)


async def _document(journal: Journal, digest: str) -> Value:
    async for record in journal.read(stream_of(digest)):
        event = journal.registry.decode(record)
        if isinstance(event, DefinitionRecorded) and not isinstance(event.document, Erased):
            return event.document
    return None


def _problem_lines(problem: ReplayProblem) -> list[str]:
    where = problem.stream if problem.position is None else f"{problem.stream} (position {problem.position})"
    lines = [f"- {where}: {problem.message}"]
    if problem.recorded is not None:
        lines.append(f"    recorded: {problem.recorded['type']} {value_text(problem.recorded['fields'], None)}")
    if problem.named is not None:
        named = [f"{step['step']} {value_text(step['fields'], None)}" for step in problem.named]
        lines.append(f"    the rules name: {'; '.join(named) or 'nothing'}")
    if problem.state is not None:
        lines.append(f"    the run then: {value_text(problem.state, None)}")
    return lines


def _drift_line(drift: Drift) -> str:
    if drift.what == ("agent",):
        return f"- run {drift.run}: no agent called {drift.agent} is given"
    changes = "; ".join(drift.changes) or "its recorded definition cannot be read"
    return f"- run {drift.run}: the {' and '.join(drift.what)} of agent {drift.agent} changed: {changes}"
