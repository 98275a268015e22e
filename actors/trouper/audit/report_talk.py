"""The conversation in a report: what people said, what models answered, and the calls between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trouper.audit.markup import Child, Markup, el, together
from trouper.audit.report_calls import card
from trouper.audit.report_parts import (
    Within,
    badge,
    clock,
    content_block,
    erased,
    perhaps,
    person,
    result_block,
    spoken,
)
from trouper.audit.story import RunStory, Said
from trouper.core import events as ev
from trouper.core.conversation import AI, Content, Message, ToolMessage
from trouper.core.state import known
from trouper.narration.text import count
from trouper_journal import Erased, Value

_ROLES = {"system": "System", "human": "Person", "ai": "Model", "tool": "Tool"}


def conversation(run: RunStory, within: Within) -> Markup:
    """What was said in a run, from what it started from to its end."""
    parts: list[Child] = []
    if run.before or run.before_erased:
        many = count(len(run.before), "earlier message") if not run.before_erased else "what was said before"
        parts.append(el("p", f"It starts from {many}:", class_="soft"))
        parts += [el("p", erased())] if run.before_erased else []
        parts += [_message(message, "dim") for message in run.before]
        parts.append(el("p", "Here its own conversation begins:", class_="soft"))
    for said in run.said:
        parts.append(_said(said, within))
    parts += [card(call, within) for call in run.loose]
    return together(*parts)


def _said(said: Said, within: Within) -> Markup:
    event = said.event
    match event:
        case ev.RunSubmitted():
            return _spoken_by(said, asker(event), event.input)
        case ev.RunSignalled():
            return _spoken_by(said, person(event.by), event.messages)
        case ev.ModelResponded():
            return _reply(said, event, within)
        case ev.OutputRejected():
            return _block(said, "Runtime", "bad", [badge("answer not accepted", "bad")], [spoken(event.text)])
        case ev.ContextCompacted():
            summary = [el("p", perhaps()) if isinstance(event.summary, Erased) else spoken(event.summary)]
            return _block(said, "Runtime", "dim", [badge(f"{event.count:,} messages dropped")], summary)
        case ev.HookApplied():
            return _block(said, "Hook", "dim", [], [el("div", said.line.text, class_="text small")])
        case ev.ModelFailed() | ev.ModelLost():
            return _block(said, "Model", "bad", [], [el("div", said.line.text, class_="text")])


def asker(event: ev.RunSubmitted) -> Markup:
    """Who asked for a run: a person, or an agent that a person had asked."""
    if event.parent is None:
        return person(event.by)
    agent = event.path[-2] if len(event.path) > 1 else "an agent"
    return el("span", el("strong", agent, class_="model"), el("span", " for ", class_="soft small"), person(event.by))


def _spoken_by(said: Said, who: Markup, messages: Sequence[Message] | Erased) -> Markup:
    if isinstance(messages, Erased):
        return _block(said, who, "person", [], [el("p", erased())])
    if len(messages) == 1:
        return _block(said, who, "person", [], [_content(messages[0])])
    return _block(said, who, "person", [], [_message(message, "") for message in messages])


def _reply(said: Said, event: ev.ModelResponded, within: Within) -> Markup:
    notes: list[Child] = [el("span", part, class_="soft small") for part in _about(event)]
    if event.truncated:
        notes.append(badge("cut off", "bad"))
    body: list[Child] = []
    if isinstance(event.reasoning, str) and event.reasoning:
        body += [el("div", "Reasoning as the provider disclosed it", class_="kicker"), spoken(event.reasoning)]
    if isinstance(event.text, Erased) or isinstance(event.calls, Erased):
        body.append(el("p", erased()))
    else:
        body.append(content_block(_as_content(event.text)))
    if isinstance(event.refusal, str):
        body += [el("div", "Refusal", class_="kicker bad"), spoken(event.refusal)]
    body += [card(call, within) for call in said.calls]
    planned = len(said.calls)
    for call in known(event.calls, ())[planned:]:
        body.append(el("div", "Asked for, and not looked at", class_="kicker"))
        body.append(el("pre", f"{call.name}({call.arguments})"))
    return _block(said, el("strong", "Model", class_="model"), "model", notes, body)


def _about(event: ev.ModelResponded) -> Iterator[str]:
    if event.model:
        yield event.model
    if event.input_tokens is not None or event.output_tokens is not None:
        yield f"{event.input_tokens or 0:,} tokens in, {event.output_tokens or 0:,} out"


def _as_content(value: Value) -> Content | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return tuple(part for part in value if isinstance(part, dict))
    return str(value)


def _block(said: Said, who: Child, style: str, notes: Sequence[Child], body: Sequence[Child]) -> Markup:
    shown = who if isinstance(who, Markup) else el("strong", who)
    head = el("header", shown, notes, el("span", clock(said.at), class_="soft small"))
    return el("div", head, *body, class_=f"said {style}".strip())


def _message(message: Message, style: str) -> Markup:
    role = _ROLES[message.role]
    if isinstance(message, ToolMessage):
        role = f"{role} {message.name}"
    head = el("header", el("strong", role))
    body: list[Child] = [_content(message)]
    if isinstance(message, AI):
        body += [el("pre", f"{call.name}({call.arguments})") for call in message.tool_calls]
    return el("div", head, *body, class_=f"said {style}".strip())


def _content(message: Message) -> Markup:
    if isinstance(message, ToolMessage) and isinstance(message.content, str):
        return result_block(message.content)
    return content_block(message.content)
