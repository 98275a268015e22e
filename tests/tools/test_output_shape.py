"""What an output must be: its schema, strict or not, how it goes to the wire, and that what fits one fits the other."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import jsonschema
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trouper import DefinitionError, ModelConfig, Output, OutputSchema
from trouper.core.chat_request import request_body
from trouper.core.conversation import Human, Value
from trouper.output import Answering, Mode
from trouper.testing import violations
from trouper.tools._output import Fit, Misfit, output_shape, strict_output, without_nulls


@dataclasses.dataclass
class Step:
    text: str
    minutes: Annotated[int, pydantic.Field(ge=0, description="How long")] = 1


class Loose(pydantic.BaseModel):
    name: str
    steps: list[Step]
    note: str | None = None


class Tree(pydantic.BaseModel):
    name: str
    below: list[Tree]


def schema_of(output: Output) -> dict[str, Any]:
    schema, _ = output.offered
    return dict(schema)


def sent(schema: OutputSchema) -> bytes:
    return json.dumps(request_body("m", [Human("1", "go")], config=ModelConfig(output=schema))).encode()


def test_in_strict_mode_objects_are_closed_and_what_may_be_left_out_is_nullable() -> None:
    schema = schema_of(Output(Loose, strict=True))
    step = schema["properties"]["steps"]["items"]
    assert schema["required"] == ["name", "steps", "note"]
    assert schema["additionalProperties"] is False
    assert (step["required"], step["additionalProperties"]) == (["text", "minutes"], False)
    assert step["properties"]["minutes"]["anyOf"] == [{"type": "integer", "minimum": 0}, {"type": "null"}]
    assert violations(sent(OutputSchema(schema, strict=True))) == []


def test_left_out_it_is_guaranteed_where_that_can_be_said() -> None:
    assert Output(Loose).offered == Output(Loose, strict=True).offered
    assert schema_of(Output(Tree))["$defs"]["Tree"]["additionalProperties"] is False
    assert violations(sent(OutputSchema(schema_of(Output(list[Tree])), strict=True))) == []
    for free in ({"type": "object"}, {"type": "object", "allOf": [{"required": ["a"]}]}):
        assert Output(free).offered == (free, False)
    assert Output(Loose | None).offered[1]
    assert not Output(dict[str, int]).offered[1]
    assert not Output(Tree, strict=False).offered[1]


@pytest.mark.parametrize(
    "asked", [dict[str, int], tuple[int, str], {"type": "object", "allOf": [{}]}, list[dict[str, str]]]
)
def test_what_cannot_be_guaranteed_is_refused_where_that_is_asked_for(asked: object) -> None:
    with pytest.raises(DefinitionError, match=r"output, strict: .*strict mode"):
        Output(asked, strict=True)


@pytest.mark.parametrize("mode", ["native", "tool", "instruction"])
def test_a_null_for_what_may_be_left_out_leaves_it_out_only_in_strict_mode(mode: Mode) -> None:
    text = json.dumps({"name": "a", "steps": [{"text": "b", "minutes": None}], "note": None})
    for strict in (True, None, False):
        read = Answering(Output(Loose, strict=strict), mode).read_text(text, truncated=False)
        if mode == "instruction" or strict is False or (mode == "tool" and strict is None):
            assert isinstance(read, Misfit)
        else:
            assert isinstance(read, Fit)
            assert read.value == {"name": "a", "steps": [{"text": "b"}]}
            assert read.typed == Loose(name="a", steps=[Step("b", 1)])


def test_the_stub_refuses_a_strict_schema_that_openai_would_refuse() -> None:
    broken = violations(sent(OutputSchema(output_shape(Loose).schema, strict=True)))
    assert any("is not closed" in each for each in broken)
    assert any("does not require all" in each for each in broken)
    assert violations(sent(OutputSchema({"type": "array"}))) == [
        "response_format.json_schema.schema: is not the schema of an object"
    ]
    assert violations(sent(OutputSchema({"type": "object"}, name="not a name")))


def test_settings_with_a_schema_are_merged_and_written_down() -> None:
    wanted = OutputSchema({"type": "object"}, name="claim")
    config = ModelConfig(output=wanted)
    assert ModelConfig(seed=1).over(config).output == wanted
    assert config.over(ModelConfig(output=OutputSchema({}))).output == wanted
    assert config.to_value() == {"output": {"name": "claim", "schema": {"type": "object"}, "strict": False}}
    assert ModelConfig().to_value() == {}
    body = request_body("m", [Human("1", "go")], config=ModelConfig(output=wanted, extra={"response_format": "mine"}))
    # The user's own words win, as ever.
    assert body["response_format"] == "mine"


STEPS: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(
    {"text": st.text(max_size=5), "minutes": st.integers(-1, 9) | st.text(max_size=1) | st.none()}
)
LOOSE: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(
    {
        "name": st.text(max_size=5) | st.none(),
        "steps": st.lists(STEPS, max_size=2),
        "note": st.none() | st.text(max_size=2),
    }
)


@given(LOOSE)
def test_what_fits_the_strict_schema_fits_the_type(value: dict[str, Value]) -> None:
    shape = output_shape(Loose)
    read = shape.read(without_nulls(shape, value))
    if jsonschema.Draft202012Validator(strict_output(shape)).is_valid(value):
        assert isinstance(read, Fit)
        assert isinstance(read.typed, Loose)
    else:
        assert isinstance(read, Misfit)
        assert read.reason.startswith("- ")


def test_a_value_is_not_shared_with_what_is_journaled() -> None:
    read = output_shape({"type": "array"}).read([[1]])
    assert isinstance(read, Fit)
    assert isinstance(read.typed, list)
    read.typed[0].append(2)
    assert read.value == [[1]]


def test_many_misfits_are_told_up_to_a_bound() -> None:
    read = output_shape(list[int]).read(["x"] * 100)
    assert isinstance(read, Misfit)
    assert len(read.reason.splitlines()) == 21
    assert read.reason.endswith("- and 80 more")
