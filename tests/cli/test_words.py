"""What is said about every event, and how what others wrote is shown."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from io import StringIO

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from trouper import AI, REGISTRY, Effect, Human, Limits, Principal, System
from trouper.cli.timeline import Told, timeline
from trouper.core.base import Base, HistoryRef
from trouper.core.events import ActionInterrupted, ActionPlanned, AskedCall, Grounds, HookDone, Standing, StateOp
from trouper.hooks import Answer, Drop, Fail, Insert, Replace, Reply, SetArguments, Spend, UseModel
from trouper.narration.line import Line
from trouper.narration.narrate import Narrator
from trouper.narration.plain import plain, record_json
from trouper.narration.text import age, call_text, clean, cut, duration, quoted
from trouper_journal import ERASED, Record, Value, pack_map

# Text as models write it at their worst: controls, overrides, surrogates.
TEXT = st.text(st.characters(), max_size=20)
VALUES: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=3)
ACTIONS = st.sampled_from(["0.0", "0.1", "12.3"])
PRINCIPALS = st.builds(Principal, TEXT, via=TEXT)
MESSAGES = st.builds(Human, TEXT, TEXT) | st.builds(System, TEXT, TEXT) | st.builds(AI, TEXT, TEXT)
OPS = st.sampled_from(["set", "append", "merge"])
HOOK_OPS = (
    st.builds(Drop, st.lists(TEXT, max_size=2), st.none() | TEXT)
    | st.builds(Insert, MESSAGES, TEXT)
    | st.builds(Replace, MESSAGES)
    | st.builds(UseModel, TEXT, TEXT)
    | st.builds(SetArguments, OBJECTS)
    | st.builds(Answer, TEXT)
    | st.builds(Reply, st.builds(AI, TEXT, TEXT))
    | st.builds(Spend, TEXT)
    | st.builds(Fail, TEXT)
)

REFS = st.builds(HistoryRef, TEXT, st.integers(1, 9))
SOME_REFS = st.lists(REFS, max_size=3).map(tuple)

NAMED: Mapping[str, st.SearchStrategy[object]] = {
    "action": ACTIONS,
    "document": OBJECTS,
    "messages": st.lists(MESSAGES, max_size=3).map(tuple),
    "input": st.lists(MESSAGES, max_size=3).map(tuple),
    "by": st.none() | PRINCIPALS,
    "calls": st.lists(st.builds(AskedCall, TEXT, TEXT), max_size=3).map(tuple),
    "arguments": st.none() | OBJECTS,
    "effect": st.sampled_from(Effect),
    "limits": st.none() | st.builds(Limits, st.integers(1, 9)),
    "details": st.lists(TEXT, max_size=3).map(tuple),
    "value": VALUES,
    "extra": st.none() | OBJECTS,
    "salt": st.binary(max_size=8),
    "done": st.lists(st.builds(HookDone, TEXT, st.lists(HOOK_OPS, max_size=3).map(tuple)), max_size=2).map(tuple),
    "subject": ACTIONS,
    "asked": st.none() | OBJECTS,
    "ops": st.lists(st.builds(StateOp, st.sampled_from(["set", "append", "merge"]), TEXT, VALUES), max_size=3).map(
        tuple
    ),
    "state": st.none() | OBJECTS,
    "defaults": st.none() | OBJECTS,
    "base": st.none() | st.builds(Base, SOME_REFS, st.binary(max_size=8), st.integers(0, 9)),
    "after": st.none() | REFS,
    "kept": SOME_REFS,
    "grounds": st.builds(Grounds, TEXT, st.lists(TEXT, max_size=2).map(tuple)),
    "people": st.just(()),
    "eligible": st.lists(TEXT, max_size=3).map(tuple),
    "dropped": SOME_REFS,
    "standing": st.builds(Standing, TEXT, st.integers(0, 9), TEXT, st.none() | REFS),
    "by_tool": st.dictionaries(TEXT, st.integers(0, 9), max_size=2),
    "seconds": st.floats(0, 1e6),
}
MOMENTS = st.integers(0, 2**61)


def _field(name: str, hint: object) -> st.SearchStrategy[object]:
    if name in NAMED:
        return NAMED[name]
    if typing.get_origin(hint) is typing.Literal:
        return st.sampled_from(typing.get_args(hint))
    if name.endswith("_at"):
        return st.none() | MOMENTS
    kinds = {int: st.integers(0, 99), str: TEXT, bool: st.booleans(), bytes: st.binary(max_size=32)}
    parts = [kinds[part] for part in (hint, *typing.get_args(hint)) if part in kinds]
    return st.one_of(*parts) if parts else st.none()


def events(cls: type) -> st.SearchStrategy[object]:
    """Events of a class, each content field sometimes erased."""
    hints = typing.get_type_hints(cls)
    fields = {each.name: _field(each.name, hints[each.name]) for each in attrs.fields(cls)}
    if cls.__name__ == "RunStarted":
        fields["limits"] = st.builds(Limits, st.integers(1, 9))
    erasable = [each.name for each in attrs.fields(cls) if each.metadata]
    return st.builds(
        cls, **{name: st.just(ERASED) | made if name in erasable else made for name, made in fields.items()}
    )


def record(kind: str, meta: dict[str, Value] | None = None) -> Record:
    """A record's envelope."""
    return Record(1, "run/X", 1, kind, 1, 0, None, None, None, None, pack_map(meta or {}), b"", b"", b"")


SPECS = {spec.type: spec.cls for spec in REGISTRY}


@pytest.mark.parametrize("kind", SPECS)
@settings(max_examples=30)
@given(data=st.data(), limit=st.none() | st.integers(5, 40))
def test_every_event_is_one_visible_line_and_json_whatever_is_in_it(
    kind: str, data: st.DataObject, limit: int | None
) -> None:
    event = data.draw(events(SPECS[kind]))
    line = Narrator(limit).tell(record(kind), event)
    assert line.who
    assert "unknown to this release" not in line.text
    assert line.who.isprintable()
    assert line.text.isprintable()
    # NaN and lone surrogates included: what is printed as JSON is JSON.
    shown = record_json(record(kind), event)["data"]
    assert isinstance(shown, dict)
    assert plain(shown) == shown


def test_later_lines_name_the_tool_that_an_earlier_one_planned() -> None:
    narrator = Narrator()
    planned = ActionPlanned("0.0", "wire", Effect.UNQUERYABLE_WRITE, arguments={"amount": 3})
    assert narrator.tell(record("action.planned"), planned).text.startswith("0.0 wire(amount=3) may run")
    lost = ActionInterrupted("0.0", 1, "lost")
    line = narrator.tell(record("action.interrupted"), lost)
    assert line.who == "wire"
    assert line.text.endswith("such a write is never run again by itself")


def test_a_change_of_the_driving_process_is_told_once() -> None:
    narrator = Narrator()
    told = [narrator.handover(record("x", {"epoch": epoch})) for epoch in (3, 3, 4, 4)]
    assert [line and line.text for line in told] == [
        None,
        None,
        "another process drives the run from here (epoch 4)",
        None,
    ]
    assert narrator.handover(record("x")) is None


def test_an_event_of_another_release_is_named() -> None:
    assert Narrator().tell(record("run.teleported"), None).text == "run.teleported (schema 1, unknown to this release)"


# ---- text


@given(TEXT)
def test_clean_text_is_visible_and_plain_text_stays(text: str) -> None:
    assert clean(text).isprintable()
    if text.isprintable():
        assert clean(text) == text
    assert quoted(text).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\rb", "a\\rb"),
        ("a\x9bb", "a\\x9bb"),
        ("\u202egpj", "\\u202egpj"),
        ("a\u200bb", "a\\u200bb"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("日本 é ü", "日本 é ü"),
    ],
)
def test_what_could_disguise_itself_is_escaped(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_newlines_pass_where_they_may() -> None:
    assert clean("a\n\x07b", keep="\n") == "a\n\\x07b"


def test_a_long_text_is_cut_and_says_how_long_it_is() -> None:
    assert cut("x" * 2000, 10) == "xxxxxxxxx… (2,000 characters)"
    assert cut("x" * 10, 10) == "x" * 10
    assert cut("x" * 2000, None) == "x" * 2000


def test_a_call_reads_as_people_write_it() -> None:
    assert call_text("send", {"to": "a", "n": 1, "deep": {"x": [None, True]}}) == (
        'send(to="a", n=1, deep={"x": [null, true]})'
    )
    assert call_text("send", None) == "send(…)"


@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [
        (0, "0.00 s", "0 s"),
        (-1.5, "-1.50 s", "0 s"),
        (99.99, "99.99 s", "1 min"),
        (754, "12 min 34 s", "12 min"),
        (7321, "2 h 02 min", "2 h"),
        (40 * 3600, "40 h 00 min", "40 h"),
        (50 * 3600, "2 d 2 h", "2 d"),
    ],
)
def test_lengths_of_time(seconds: float, long: str, short: str) -> None:
    assert (duration(seconds), age(seconds)) == (long, short)


SECOND = 1_000_000_000


@pytest.mark.parametrize("width", [50, 80, 1000])
def test_long_times_and_long_names_break_no_column(width: int) -> None:
    console = Console(file=StringIO(), width=width)
    times = [1, 99.999, 3599, 47 * 3600 + 3599, 400 * 86400 + 11 * 3600, -3599]
    for name in ("model", "a_tool_with_a_name_as_long_as_can"):
        console.print(timeline([Told(int(time * SECOND), Line(name, "x " * 99)) for time in times], 0))
        for time in times:
            console.print(timeline([Told(int(time * SECOND), Line(name, "x " * 99))], 0))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    for time in times:
        shown = f"+{duration(time)}".replace("+-", "-").rjust(12)
        # Twice under each name: in one table with the others, and alone.
        assert sum(line.startswith(f"{shown}  ") for line in text.splitlines()) == 4
    assert "…" not in text
    # Whatever was printed alone stands below what was printed together.
    starts = {line.index("model") for line in text.splitlines() if "model" in line}
    assert starts == {14}
