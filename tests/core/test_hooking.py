"""The conversation as hooks let the model see it, against plain operations on a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trouper.core.conversation import AI, Human, Message, ToolCall, ToolMessage
from trouper.core.hook_ops import Drop, Insert, MessageOp, Replace
from trouper.core.hooking import broken_pairs, extended, replaced, shown


@given(st.data(), st.integers(0, 6), st.lists(st.sampled_from(["drop", "through", "insert", "replace", "said"])))
def test_operations_by_id_are_those_on_a_list_whatever_is_said_meanwhile(
    data: st.DataObject, count: int, kinds: list[str]
) -> None:
    said: list[Message] = [Human(f"m{number}", "said") for number in range(count)]
    seen, ops = list(said), list[MessageOp]()
    for number, kind in enumerate(kinds):
        ids = [message.id for message in seen]
        match kind:
            case "said":
                said.append(Human(f"n{number}", "later"))
                seen.append(said[-1])
            case "insert":
                place = data.draw(st.integers(0, len(ids)))
                new = Human(f"i{number}", "inserted")
                ops.append(Insert(new, ids[place - 1] if place else ""))
                seen.insert(place, new)
            case "drop" if ids:
                gone = data.draw(st.lists(st.sampled_from(ids), unique=True))
                ops.append(Drop(gone))
                seen = [message for message in seen if message.id not in gone]
            case "through" if ids:
                place = data.draw(st.integers(0, len(ids) - 1))
                ops.append(Drop(through=ids[place]))
                seen = seen[place + 1 :]
            case "replace" if ids:
                place = data.draw(st.integers(0, len(ids) - 1))
                seen[place] = Human(ids[place], f"replaced {number}")
                ops.append(Replace(seen[place]))
        assert shown(said, ops) == tuple(seen)
    for message in seen:
        assert replaced(next((each for each in said if each.id == message.id), message), ops).id == message.id


def test_the_digest_tells_what_was_done_to_messages_apart() -> None:
    ops: list[tuple[MessageOp, ...]] = [
        (),
        (Drop(["a"]),),
        (Drop(["b"]),),
        (Drop(through="a"),),
        (Drop(["a"]), Drop(["b"])),
        (Insert(Human("i", "x"), "a"),),
        (Insert(Human("i", "x"), "b"),),
        (Insert(Human("i", "y"), "a"),),
        (Replace(Human("a", "x")),),
    ]
    assert len({extended(b"chain", b"salt", each) for each in ops}) == len(ops)
    assert extended(b"chain", b"salt", ()) == b"chain"


def test_calls_and_answers_that_do_not_belong_together_are_found() -> None:
    asks = AI("a", None, (ToolCall("c1", "t", "{}"), ToolCall("c2", "t", "{}")))
    one, two = ToolMessage("1", "c1", "t", "x"), ToolMessage("2", "c2", "t", "x")
    assert broken_pairs([Human("h", "x"), asks, one, two, Human("i", "x")]) == set()
    # The last reply's calls are still to be answered.
    assert broken_pairs([Human("h", "x"), asks]) == set()
    assert broken_pairs([asks, one, Human("h", "x")]) == {"c2 has no answer"}
    assert broken_pairs([Human("h", "x"), one]) == {"1 answers no call that is open"}
    assert broken_pairs([asks, two, one]) == {"2 answers no call that is open"}
