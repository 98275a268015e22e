from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trouper.core.conversation import (
    AI,
    Change,
    Human,
    Message,
    Removal,
    System,
    ToolCall,
    ToolMessage,
    Usage,
    add_messages,
    pretty,
    text,
)


def test_a_known_id_replaces_in_place_and_keeps_the_order() -> None:
    before = add_messages((), [Human("1", "a"), AI("2", "b"), Human("3", "c")])
    after = add_messages(before, [AI("2", "changed"), Human("4", "d")])
    assert after == (Human("1", "a"), AI("2", "changed"), Human("3", "c"), Human("4", "d"))


def test_a_removal_takes_a_message_out_and_an_unknown_one_changes_nothing() -> None:
    before = (Human("1", "a"), AI("2", "b"))
    assert add_messages(before, [Removal("1")]) == (AI("2", "b"),)
    assert add_messages(before, [Removal("9")]) == before
    assert add_messages(before, [Removal("1"), Human("1", "again")]) == (AI("2", "b"), Human("1", "again"))


_changes = st.lists(
    st.one_of(
        st.builds(Human, st.sampled_from("abcd"), st.text(max_size=3)),
        st.builds(Removal, st.sampled_from("abcd")),
    )
)


@given(_changes)
def test_adding_agrees_with_a_list_kept_by_hand(changes: list[Change]) -> None:
    kept: list[Message] = []
    for change in changes:
        place = next((place for place, message in enumerate(kept) if message.id == change.id), None)
        if isinstance(change, Removal):
            kept = [message for message in kept if message.id != change.id]
        elif place is None:
            kept.append(change)
        else:
            kept[place] = change
    assert add_messages((), changes) == tuple(kept)


def test_pretty_names_the_speaker_and_shows_calls_and_errors() -> None:
    shown = pretty(
        [
            System("0", "Be brief."),
            Human("1", ({"type": "text", "text": "What is this? "}, {"type": "image_url", "image_url": {"url": "x"}})),
            AI("2", None, (ToolCall("r/0.0", "look", '{"at":"x"}'),), reasoning="hm"),
            ToolMessage("3", "r/0.0", "look", "too dark", "error"),
            AI("4", None, refusal="I will not say."),
        ]
    )
    lines = shown.splitlines()
    assert [line.strip("= ") for line in lines if line.startswith("=")] == [
        "System",
        "Human",
        "AI",
        "Tool look (error)",
        "AI",
    ]
    assert "What is this? [image_url]" in lines
    assert "(reasoning) hm" in lines
    assert '-> look({"at":"x"})  [r/0.0]' in lines
    assert "(refusal) I will not say." in lines


def test_pretty_takes_one_message_too() -> None:
    assert pretty(Human("1", "hello")).splitlines()[1] == "hello"


def test_text_of_content() -> None:
    assert text(None) == ""
    assert text("a") == "a"
    assert text(({"type": "refusal", "refusal": "no"}, {"type": "input_audio"})) == "no[input_audio]"


def test_unknown_usage_stays_unknown_in_sums() -> None:
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)
    assert Usage(1, 2, 0, 1) + Usage(3, None, 1, 1) == Usage(4, None, 1, 2)
    assert Usage.zero() + Usage(3, 4) == Usage(3, 4, None, None)
    assert Usage(1, None).total_tokens is None
    assert Usage(1, 2).total_tokens == 3
