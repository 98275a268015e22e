"""A run as a timeline, and what it waits for."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trouper.cli.journals import system_user
from trouper.cli.output import grid, styled, typed
from trouper.core.approvals import objection
from trouper.core.decide_budget import stalled
from trouper.core.events import Principal
from trouper.core.state import Action, RunState
from trouper.core.status import status
from trouper.narration.line import ERASED_TEXT, Line
from trouper.narration.narrate_approvals import wanted_text
from trouper.narration.plain import SECOND, answer_text, kept, plain
from trouper.narration.spending import spent_text
from trouper.narration.text import claim, clean, count, duration, who
from trouper.narration.when import when
from trouper_journal import Erased

STYLES = {
    "person": "magenta",
    "model": "cyan",
    "ok": "green",
    "bad": "red",
    "doubt": "yellow",
    "dim": "dim",
    "": "",
}
LABELS = {
    "running": "blue",
    "retrying": "blue",
    "scheduled": "blue",
    "sleeping": "blue",
    "queued": "blue",
    "paused": "yellow",
    "over_budget": "yellow",
    "awaiting_approval": "yellow",
    "in_doubt": "yellow",
    "drifted": "yellow",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "red",
}
_WHO = 12
_ELAPSED = len("+47 h 59 min")


@frozen
class Told:
    """A line with its time, ns UTC."""

    at: int
    line: Line


def label_text(label: str | None) -> Text:
    """A run's label in its colour."""
    name = label or "?"
    doubt = name.endswith("-in-doubt")
    return styled(clean(name), "yellow" if doubt else LABELS.get(name, ""))


def timeline(lines: Sequence[Told], start: int) -> Table:
    """Lines as a table: time since the start, who, what."""
    table = grid()
    # As wide as the longest duration, so that lines printed one by one stay below each other.
    table.add_column(justify="right", no_wrap=True, min_width=_ELAPSED)
    table.add_column(overflow="fold", min_width=_WHO)
    table.add_column(overflow="fold")
    for told in lines:
        style = STYLES[told.line.style]
        elapsed = f"+{duration((told.at - start) / SECOND)}".replace("+-", "-")
        table.add_row(styled(elapsed, "dim"), styled(told.line.who, style), styled(told.line.text, style))
    return table


def header(state: RunState, asked_at: int) -> Iterator[Text]:
    """What a run is, and how it stands."""
    yield Text.assemble("run ", (clean(state.run), "bold"), "  ", label_text(status(state).label))
    by = kept(state, state.by)
    asker = f"asked by {who(by)} {claim(by)}, " if by else "asked "
    place = state.turn.place if state.turn is not None else None
    session = "" if place is None else f"turn {place.number} of session {clean(place.session)}; "
    facts = f"agent {clean(state.agent)}; {session}{asker}{when(asked_at, digits=0)}; {count(state.steps, 'step')}; "
    facts += spent_text(state.spent)
    if state.children:
        facts += ", with its sub-agents"
    yield styled(facts, "dim")


def command_line(verb: str, journal: Path, *rest: str) -> str:
    """A command to type, quoted for a shell."""
    return shlex.join([program(), verb, str(journal), *rest])


def program() -> str:
    """What to type for this program: its name where a shell would find it, else as it was typed this time."""
    typed_as = sys.argv[0]
    name = os.path.basename(typed_as)
    if name != "trouper" or os.path.realpath(shutil.which(name) or "") == os.path.realpath(typed_as):
        return "trouper"
    return typed_as


def footer(state: RunState, journal: Path) -> Iterator[Text | Padding]:
    """How it ended, or what has to be done that it goes on."""
    for action in state.awaiting:
        if not state.stopping and not state.ended:
            yield from approval_wanted(state, action, journal)
    for action in state.in_doubt:
        yield from doubt_to_settle(state, action, journal)
    if state.drift is not None:
        drift = kept(state, state.drift)
        changes = ERASED_TEXT if isinstance(drift, Erased) else clean("; ".join(drift))
        yield styled(f"Held, because the agent's definition changed: {changes}", "yellow")
        yield styled("It goes on as the agent is defined now with Runtime.adopt in its program, or with:")
        yield typed(
            command_line("run", Path("FILE:AGENT"), "--journal", str(journal), "--resume", state.run, "--adopt")
        )
    yield from _moments(state)
    if state.control.pause is not None and not state.ended:
        yield styled("It is paused, and goes on with:")
        yield typed(command_line("resume", journal, state.run, "--as", system_user()))
    refusal = state.budget.refused
    if refusal is not None and (state.failure == "budget" or stalled(state)):
        option = f"--{refusal.resource.replace('_', '-')}"
        yield styled("It can go on with more:")
        yield typed(command_line("raise-limit", journal, refusal.owner, option, "10", "--as", system_user()))
    elif state.failure == "step_limit" or stalled(state):
        yield styled("It can go on with more steps:")
        yield typed(command_line("raise-limit", journal, state.run, "--steps", "10", "--as", system_user()))
    elif state.failure == "deadline":
        yield styled("It can go on with a later deadline:")
        yield typed(command_line("extend", journal, state.run, "--until", "YYYY-MM-DDTHH:MMZ", "--as", system_user()))
    elif state.failure is not None:
        yield styled("It can go on, once what was wrong is mended:")
        yield typed(command_line("resume", journal, state.run, "--as", system_user()))
    if (answer := answer_text(state)) is not None:
        yield styled("Output:" if state.answer.verdict == "accepted" else "Answer:", "bold")
        yield _indented(styled(clean(answer, keep="\n\t")))


def _moments(state: RunState) -> Iterator[Text]:
    """The moments that it waits for, or has to be done by."""
    if state.ended:
        return
    if not state.started and state.control.start_at is not None:
        yield styled(f"It starts at {when(state.control.start_at)}.")
    for action in state.batch:
        if action.sleep is not None and action.sleep.told is None:
            yield styled(f"{clean(action.tool)} ({action.action}) sleeps until {when(action.sleep.until)}.")
    if state.control.deadline is not None:
        yield styled(f"It must have ended by {when(state.control.deadline)}.")


def approval_wanted(state: RunState, action: Action, journal: Path) -> Iterator[Text | Padding]:
    """Everything that a person needs to decide, nothing shortened, and what to type."""
    by = kept(state, state.by)
    asker = f", asked by {who(by)}" if by else ""
    callers = " > ".join(map(clean, state.path))
    yield styled(f"{callers}{asker}, wants to call {clean(action.tool)} ({action.effect.value}):", "yellow")
    if state.erased:
        # Nobody should decide on what they cannot see; the commands would refuse it, too.
        yield _indented(styled(f"{ERASED_TEXT} Its arguments are sealed; --keys FILE names the keys to them.", "bold"))
        return
    for name, value in (action.arguments or {}).items():
        shown = json.dumps(plain(value), ensure_ascii=False)
        yield _indented(styled(f"{clean(name)} = {clean(shown)}", "bold"))
    for line in wanted_text(action.consent, state.by):
        yield styled(line, "yellow")
    until = f"; it lapses at {when(action.expires_at)}" if action.expires_at else ""
    yield styled(f"Digest {action.digest.hex()}{until}. To decide, type in any terminal one of", "dim")
    name = f"{state.run}/{action.action}"
    # The digest binds what is typed to what was shown: the call may be asked anew under the same name.
    seen = ("--as", _decider(state, action), "--digest", action.digest.hex()[:12])
    yield typed(command_line("approve", journal, name, *seen))
    yield typed(command_line("deny", journal, name, *seen, "--reason", "why not"))


def _decider(state: RunState, action: Action) -> str:
    """A name to decide under: the one who looks, if it is one of those who may."""
    me = system_user()
    barred = objection(action.consent, state.by, Principal(me), "approve") is not None
    return "NAME" if barred else me


def doubt_to_settle(state: RunState, action: Action, journal: Path) -> Iterator[Text | Padding]:
    """What is in doubt, and what to type once somebody has looked."""
    yield styled(f"Nobody knows whether {clean(action.tool)} took effect ({state.run}/{action.action}):", "yellow")
    if state.erased:
        # Nobody should decide on what they cannot see; the commands would refuse it, too.
        yield _indented(styled(f"{ERASED_TEXT} Its arguments are sealed; --keys FILE names the keys to them.", "bold"))
        return
    for name, value in (action.arguments or {}).items():
        shown = json.dumps(plain(value), ensure_ascii=False)
        yield _indented(styled(f"{clean(name)} = {clean(shown)}", "bold"))
    yield styled("Look where it would have; then type one of", "dim")
    for verdict in ("applied", "not_applied", *(() if state.ended else ("run_again",)), "abandon"):
        name = f"{state.run}/{action.action}"
        yield typed(command_line("resolve", journal, name, verdict, "--as", system_user(), "--evidence", "what I saw"))


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 2), expand=False)
