"""Explanations as trees for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import frozen
from rich.text import Text
from rich.tree import Tree

from trouper.audit.chain import AnswerWhy, CallWhy, ModelWhy, OriginWhy, RuleWhy, SpendWhy
from trouper.audit.seen import LeftOut, Request, Seen
from trouper.audit.summaries import SummaryWhy
from trouper.audit.trace import Call, Entry
from trouper.cli.output import styled
from trouper.cli.timeline import STYLES, label_text
from trouper.cli.why_words import (
    BINDINGS,
    ORIGINS,
    check_lines,
    cost_text,
    leave,
    outcome,
)
from trouper.core.conversation import AI, Message, ToolMessage
from trouper.core.conversation import text as text_of
from trouper.core.effect_of import DID_NOT_COUNT
from trouper.core.events import AskedCall, ModelRequested, RunSubmitted
from trouper.narration.forks import fork_text
from trouper.narration.line import ERASED_TEXT, Line, said_text
from trouper.narration.narrate import Narrator
from trouper.narration.spending import spent_text
from trouper.narration.text import CUT, call_text, clean, count, quoted, value_text
from trouper.narration.when import when
from trouper_journal import ERASED

SHOWN = 20
"""Messages of a request that are shown unless everything was asked for: the first, and the newest."""


@frozen
class Planter:
    """Makes trees.

    Attributes:
        full: Whether nothing is shortened or left out.
    """

    full: bool = False

    @property
    def _limit(self) -> int | None:
        return None if self.full else CUT

    # ---- what is explained

    def call(self, why: CallWhy) -> Tree:
        """A call."""
        how, style = outcome(why.call, why.origin.unread)
        effect = "" if why.call.effect is None else f", {why.call.effect.value}"
        tree = Tree(
            Text.assemble("call ", (clean(why.id), "bold"), f" {self._call_text(why.call)}{effect}  ", (how, style))
        )
        self._entries(tree, "what happened", why.facts, why.call.void)
        allowed = tree.add(styled(*BINDINGS[why.binding]))
        if why.breach is not None:
            allowed.add(styled(f"NOT as the definition has it: {clean(why.breach)}", "bold red"))
        for rule in why.rules:
            self._rule(allowed, rule)
        if why.told is not None:
            tree.add(self._message("the model was told", why.told, erased=why.told_erased))
        self._model(tree, why.model, why)
        self._origin(tree, why.origin)
        if why.child is not None:
            self._answer(tree.add(self._below_head(why.child)), why.child)
        return tree

    def answer(self, why: AnswerWhy) -> Tree:
        """An answer."""
        tree = Tree(self._below_head(why))
        self._answer(tree, why)
        return tree

    def spend(self, why: SpendWhy) -> Tree:
        """What was spent."""
        tree = Tree(Text.assemble("run ", (clean(why.run), "bold"), f" spent {self._spent(why)}"))
        self._spend(tree, why)
        return tree

    # ---- answers

    def _below_head(self, why: AnswerWhy) -> Text:
        agent = clean(why.origin.agent or "?")
        head = Text.assemble(f"run of {agent} ", (clean(why.run), "bold"), "  ", label_text(why.origin.label))
        if why.output is not None:
            head.append(f"  {value_text(why.output, self._limit)}")
        return head

    def _answer(self, tree: Tree, why: AnswerWhy) -> None:
        if why.source is not None:
            tree.add(styled(f"its output is the result of call {clean(why.source)}"))
        self._model(tree, why.model, None)
        if why.calls:
            calls = tree.add(styled(f"it rests on {count(len(why.calls), 'call')}"))
            below = {child.run: child for child in why.children}
            for call in why.calls:
                branch = calls.add(self._call_line(why.run, call, why.origin.unread))
                child = below.get(call.child)
                if child is not None:
                    self._answer(branch.add(self._below_head(child)), child)
        self._origin(tree, why.origin)

    def _call_line(self, run: str, call: Call, unread: str | None) -> Text:
        how, style = outcome(call, unread)
        told = "" if call.outcome == "open" else f": {said_text(call.text, self._limit)}"
        line = Text.assemble(f"{clean(run)}/{call.action} {self._call_text(call)}  ", (how, style), told)
        for part in leave(call):
            line.append(f"  {part}", "dim")
        return line

    def _call_text(self, call: Call) -> str:
        return call_text(call.tool, ERASED if call.erased else call.arguments, self._limit)

    # ---- model calls

    def _model(self, tree: Tree, model: ModelWhy, why: CallWhy | None) -> None:
        if model.taken_over:
            branch = tree.add(
                styled(f"asked for by reply {model.index}, taken over from run {clean(model.taken_over)}")
            )
        elif why is not None:
            branch = tree.add(styled(f"asked for by the model's reply {model.index}"))
        else:
            branch = tree.add(styled(f"the last model call, {model.index}"))
        if why is not None and isinstance(why.asked, AskedCall):
            asked = f"{clean(why.asked.name)}({self._raw(why.asked.arguments)})"
            branch.add(styled(f"as the model wrote it: {asked}", STYLES["model"]))
        narrator = Narrator(self._limit)
        requests = {each.record.position: each for each in model.requests if each.record is not None}
        for request in model.requests:
            if request.record is None:
                self._request(branch, request, "a hook answered: no model was asked. It would have seen")
        for entry in model.facts:
            line = self._fact(narrator, entry)
            if isinstance(entry.event, ModelRequested) and entry.record.position in requests:
                self._request(branch, requests[entry.record.position], line)
            else:
                branch.add(line)

    def _request(self, tree: Tree, request: Request, head: Text | str) -> None:
        branch = tree.add(head)
        if request.check is not None:
            for line in check_lines(request.check):
                branch.add(line)
        model = request.model.get("model")
        if isinstance(model, str):
            settings = f", {value_text(request.settings, self._limit)}" if request.settings else ""
            branch.add(styled(f"model {clean(model)}{settings}", "dim"))
        told = "what can be read here" if request.erased else count(len(request.messages), "message")
        messages = branch.add(styled(f"the model saw {told}"))
        if not request.exact:
            messages.add(styled("the schema in the instructions is shown in normal form, not to the letter", "yellow"))
        self._seen(messages, request.messages)
        for left in request.left_out:
            messages.add(self._left_out(left))
        if request.tools:
            names = ", ".join(clean(tool.name) for tool in request.tools)
            branch.add(styled(f"tools offered: {names}", "dim"))

    def _seen(self, tree: Tree, messages: Sequence[Seen]) -> None:
        left = 0 if self.full else max(0, len(messages) - SHOWN)
        for place, seen in enumerate(messages):
            if left and place == 1:
                tree.add(styled(f"… {count(left, 'message')} more; --full shows all", "dim"))
            if left and 0 < place <= left:
                continue
            branch = tree.add(self._seen_line(seen))
            if seen.original is not None:
                branch.add(self._message("the record has in its place", seen.original, erased=seen.erased))

    def _seen_line(self, seen: Seen) -> Text:
        what = ORIGINS[seen.origin]
        if seen.hook is not None:
            verb = "" if seen.original is None else ", replaced"
            what = f"{what}{verb} by hook {clean(seen.hook.hook)}, position {seen.hook.position}"
        if seen.message is None:
            run = f" in run {clean(seen.run)}" if seen.origin == "history" else ""
            return styled(f"{what}{run}: {ERASED_TEXT}", "yellow")
        line = self._message(what, seen.message, erased=seen.erased)
        if seen.run:
            line.append(f"  {clean(seen.message.id)}", "dim")
        return line

    def _left_out(self, left: LeftOut) -> Text:
        by = "" if left.hook is None else f" by hook {clean(left.hook.hook)}, position {left.hook.position}"
        return self._message(f"NOT shown to the model, dropped{by}", left.message, "yellow", erased=left.erased)

    def _message(self, what: str, message: Message, style: str = "", *, erased: bool = False) -> Text:
        speaker = f"{message.role} {clean(message.name)}" if isinstance(message, ToolMessage) else message.role
        line = Text.assemble((f"{speaker} ", "bold"), (f"({what}) ", "dim"))
        if erased:
            return line.append(ERASED_TEXT, "yellow")
        parts = [self._text(text_of(message.content))] if message.content is not None else []
        if isinstance(message, AI):
            parts += [f"refuses: {self._text(message.refusal)}"] if message.refusal else []
            parts += [f"wants {clean(call.name)}({self._raw(call.arguments)})" for call in message.tool_calls]
        line.append(", ".join(parts) or "nothing", style or None)
        return line

    def _text(self, text: str) -> str:
        # To the letter, where everything was asked for: a text of many lines is read as one.
        if self.full and "\n" in text:
            return f"\n{clean(text, keep=chr(10) + chr(9))}"
        return quoted(text, self._limit)

    def _raw(self, text: str) -> str:
        return clean(text if self._limit is None or len(text) <= self._limit else f"{text[: self._limit]}…")

    # ---- origins

    def _origin(self, tree: Tree, origin: OriginWhy) -> None:
        if origin.unread is not None:
            tree.add(styled(f"the run could not be read to its end: {clean(origin.unread)}", "bold red"))
        if origin.withheld is not None:
            tree.add(styled(f"what is [erased] cannot be read here: {clean(origin.withheld)}", "yellow"))
        branch = tree.add(Text.assemble("because of run ", (clean(origin.run), "bold"), f" of {clean(origin.agent)}"))
        narrator = Narrator(self._limit)
        if origin.fork_of:
            event = None if origin.submitted is None else origin.submitted.event
            fork = event.fork if isinstance(event, RunSubmitted) else None
            branch.add(styled(f"a fork of run {clean(origin.fork_of)}" if fork is None else fork_text(fork)))
        self._definition(branch, origin)
        summaries = {summary.entry.record.position: summary for summary in origin.summaries}
        submitted = () if origin.submitted is None else (origin.submitted,)
        for entry in sorted((*submitted, *origin.session, *origin.facts), key=lambda each: each.record.position):
            line = self._fact(narrator, entry)
            if entry in submitted and entry.record.key:
                line.append(f"  key {clean(entry.record.key)}", "dim")
            added = branch.add(line)
            if entry.record.position in summaries:
                self._summary(added, summaries[entry.record.position])
        if origin.caller is not None:
            branch.add(self.call(origin.caller))

    def _summary(self, tree: Tree, summary: SummaryWhy) -> None:
        if summary.unread is not None:
            tree.add(styled(clean(summary.unread), "yellow" if summary.digest == "unread" else "bold red"))
            return
        told = {"matches": "green", "differs": "bold red", "erased": "yellow"}
        tree.add(styled(f"the digest over what was to be summarised: {summary.digest}", told[summary.digest]))
        for message in summary.messages:
            tree.add(self._message("what the summarising model saw", message))

    def _definition(self, tree: Tree, origin: OriginWhy) -> None:
        document = origin.document
        if not document.digest:
            return
        good = {"matches": "its document is in the journal, and is the one that the digest names"}
        told = good.get(
            document.standing, f"its document {document.standing}" if document.standing == "differs" else ""
        )
        told = told or f"its document is {document.standing}"
        style = "dim" if document.standing == "matches" else "bold red"
        tree.add(styled(f"definition {clean(document.digest[:12])}: {told}", style))

    def _rule(self, tree: Tree, rule: RuleWhy) -> None:
        branch = tree.add(styled(f"standing rule {clean(rule.rule)} stood in for people"))
        narrator = Narrator(self._limit)
        for entry in (rule.added, rule.revoked):
            if entry is not None:
                branch.add(self._fact(narrator, entry))
        if rule.added is None:
            branch.add(styled("who made it is not in this journal", "bold red"))

    # ---- spending

    @staticmethod
    def _spent(why: SpendWhy) -> str:
        most = "" if why.origin.unread is None else ", and maybe more: it could not be read to its end"
        return f"{spent_text(why.spent)}{most}"

    def _spend(self, tree: Tree, why: SpendWhy) -> None:
        costs = tree.add(styled(f"by itself: {spent_text(why.own)}"))
        for cost in why.costs:
            costs.add(cost_text(cost))
        if why.calls:
            calls = tree.add(styled(f"{count(len(why.calls), 'call')} started"))
            for call in why.calls:
                calls.add(self._call_line(why.run, call, why.origin.unread))
        self._entries(tree, "limits", why.facts)
        for child in why.children:
            head = Text.assemble(
                f"below: run of {clean(child.origin.agent)} ",
                (clean(child.run), "bold"),
                f" spent {self._spent(child)}",
            )
            self._spend(tree.add(head), child)
        self._origin(tree, why.origin)

    # ---- facts

    def _entries(self, tree: Tree, head: str, entries: Iterable[Entry], void: Collection[int] = ()) -> None:
        listed = list(entries)
        if not listed:
            return
        narrator = Narrator(self._limit)
        branch = tree.add(styled(head))
        for entry in listed:
            line = branch.add(self._fact(narrator, entry))
            if entry.record.position in void:
                line.add(styled(DID_NOT_COUNT, "bold yellow"))

    def _fact(self, narrator: Narrator, entry: Entry) -> Text:
        line: Line = narrator.tell(entry.record, entry.event)
        place = f"{when(entry.record.recorded_at, digits=3)} #{entry.record.position}  "
        return Text.assemble((place, "dim"), (f"{line.who} ", "bold"), (line.text, STYLES[line.style]))
