"""Two runs side by side for people: in two columns on a terminal, as the lines of a diff in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from attrs import define
from rich.table import Table
from rich.text import Text

from trouper.audit.aligning import Kind, Row
from trouper.audit.diff import Comparison, Pair, Said, Side
from trouper.audit.seen import HookOp
from trouper.audit.trace import Call
from trouper.cli.output import Output, styled
from trouper.cli.timeline import label_text
from trouper.core.conversation import AI, ToolMessage
from trouper.core.conversation import text as text_of
from trouper.core.events import RunSubmitted
from trouper.narration.forks import fork_text
from trouper.narration.line import ERASED_TEXT, said_text
from trouper.narration.plain import SECOND
from trouper.narration.text import CUT, call_text, clean, count, cut, duration, quoted, value_text, who
from trouper.narration.when import when
from trouper_journal import ERASED, Value

T = TypeVar("T")

_STYLES: dict[Kind, str] = {"same": "dim", "changed": "yellow", "left": "red", "right": "green"}


@define
class SideBySide:
    """Prints a comparison.

    Attributes:
        output: Where to.
        full: Whether nothing is shortened.
    """

    output: Output
    full: bool = False

    @property
    def _limit(self) -> int | None:
        return None if self.full else CUT

    def show(self, found: Comparison) -> None:
        """Print it."""
        self._head("-", "red", found.left)
        self._head("+", "green", found.right)
        if found.fork is not None:
            self._line(styled(f"{clean(found.right.run)} is {fork_text(found.fork)}", "dim"))
        if found.left.erased or found.right.erased:
            self._line(
                styled("some of what was said cannot be read here (erased, or sealed), and was not compared", "yellow")
            )
        self._pairs("They start differently:", found.start)
        self._definition(found)
        self._messages(found)
        self._rows("Calls behind what they have in common:", found.calls, self._call)
        self._rows("What hooks did to the messages:", found.hooks, self._hook)
        self._pairs("They end differently:", found.end)
        self._pairs("They spent differently (sub-agents that ended counted):", found.spend)
        if found.same:
            what = "that can be compared " if found.left.erased or found.right.erased else ""
            self._line(styled(f"Nothing {what}differs.", "bold green"))

    def _line(self, text: Text) -> None:
        self.output.result(text)

    def _head(self, mark: str, style: str, side: Side) -> None:
        event = None if side.submitted is None else side.submitted.event
        by = who(event.by) if isinstance(event, RunSubmitted) else "somebody"
        took = duration((side.last - side.began) / SECOND)
        facts = f"  agent {clean(side.agent)}, asked by {by} {when(side.began, digits=0)}, {took}, "
        facts += ("at least " if side.erased else "") + count(side.messages, "message")
        self._line(
            Text.assemble((f"{mark} {clean(side.run)}", f"bold {style}"), "  ", label_text(side.label), (facts, "dim"))
        )
        if side.unread is not None:
            self._line(styled(f"{mark} could not be read to its end: {clean(side.unread)}", "bold red"))

    # ---- parts

    def _pairs(self, head: str, pairs: Sequence[Pair]) -> None:
        if not pairs:
            return
        self._line(Text())
        self._line(styled(head, "bold"))
        for pair in pairs:
            name = clean(pair.name.replace("_", " "))
            # In tuples, because None is a value here, and not an empty side.
            row = Row[tuple[Value]]("changed", (pair.left,), (pair.right,))
            self._table([row], partial(self._pair, name))

    def _pair(self, name: str, value: tuple[Value]) -> str:
        (what,) = value
        return f"{name}: {value_text(what, self._limit)}"

    def _definition(self, found: Comparison) -> None:
        if not found.definition:
            return
        self._line(Text())
        self._line(styled("What differs between their definitions:", "bold"))
        for line in found.definition:
            self._line(styled(f"  {clean(line)}", "yellow"))
        ours, theirs = found.left.document.instructions, found.right.document.instructions
        if ours != theirs:
            self._table([Row("changed", ours, theirs)], lambda text: f"instructions: {quoted(text, self._limit)}")

    def _messages(self, found: Comparison) -> None:
        self._line(Text())
        number, same = count(found.common, "message"), "no message differs"
        common = f"{number} in common, from the first"
        if found.left.erased or found.right.erased:
            common, same = (
                f"{number} alike in kind, from the first",
                f"none is of another kind, what they say is {ERASED_TEXT}",
            )
        if found.first is None:
            self._line(styled(f"{common}; {same}.", "bold"))
            return
        self._line(styled(f"{common}. Then:", "bold"))
        self._table(found.messages, self._said)

    def _rows(self, head: str, rows: Sequence[Row[T]], told: Callable[[T], str]) -> None:
        if all(row.kind == "same" for row in rows):
            return
        self._line(Text())
        self._line(styled(head, "bold"))
        self._table(rows, told)

    def _table(self, rows: Sequence[Row[T]], told: Callable[[T], str]) -> None:
        if not self.output.for_people:
            for line in _lines(rows, told):
                self._line(line)
            return
        table = Table.grid(padding=(0, 2), expand=True)
        for _ in range(2):
            table.add_column(ratio=1, overflow="fold")
        for row in rows:
            cells = ["" if item is None else told(item) for item in (row.left, row.right)]
            table.add_row(*(styled(cell, _STYLES[row.kind]) for cell in cells))
        self.output.result(table)

    # ---- items

    def _said(self, said: Said) -> str:
        message = said.message
        speaker = f"{message.role} {clean(message.name)}" if isinstance(message, ToolMessage) else message.role
        if said.erased:
            return f"{speaker}: {ERASED_TEXT}"
        parts = [] if message.content is None else [quoted(text_of(message.content), self._limit)]
        if isinstance(message, AI):
            parts += [f"refuses: {quoted(message.refusal, self._limit)}"] if message.refusal else []
            parts += [
                f"wants {clean(cut(f'{asked.name}({asked.arguments})', self._limit))}" for asked in message.tool_calls
            ]
        return f"{speaker}: {', '.join(parts) or 'nothing'}"

    def _call(self, call: Call) -> str:
        asked = call_text(call.tool, ERASED if call.erased else call.arguments, self._limit)
        told = said_text(call.text, self._limit)
        parts = [f"{call.action} {asked}: {call.outcome}"]
        parts += [] if call.outcome == "open" else [told]
        parts += [] if call.gate == "free" else [f"gate {call.gate}"]
        parts += [f"approved by {', '.join(who(by) for by in call.approved_by)}"] if call.approved_by else []
        parts += [f"{call.attempts} attempts"] if call.attempts > 1 else []
        return ", ".join(parts)

    def _hook(self, op: HookOp) -> str:
        return f"{clean(op.hook)} {op.op.op} (position {op.position})"


def _lines(rows: Sequence[Row[T]], told: Callable[[T], str]) -> Iterator[Text]:
    """Rows as the lines of a diff, neighbours that changed together."""
    ours: list[Text] = []
    theirs: list[Text] = []
    for row in rows:
        if row.kind == "same":
            yield from (*ours, *theirs)
            ours, theirs = [], []
            yield styled(f"  {'' if row.left is None else told(row.left)}", "dim")
            continue
        ours += [] if row.left is None else [styled(f"- {told(row.left)}", "red")]
        theirs += [] if row.right is None else [styled(f"+ {told(row.right)}", "green")]
    yield from (*ours, *theirs)
