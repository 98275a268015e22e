"""What the tests of outputs ask for: recipes."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
from tests.agents.office import Office

from trouper import Agent, ModelConfig, Requirement
from trouper.core.conversation import Value
from trouper_adapters.openai import OpenAIModel, OpenAIOptions


class Course(enum.Enum):
    STARTER = "starter"
    MAIN = "main"


@attrs.frozen
class Recipe:
    """A recipe."""

    title: str
    minutes: int
    course: Course = Course.MAIN


SOUP: Mapping[str, Value] = {"title": "Soup", "minutes": 20, "course": "starter"}
TYPED = Recipe("Soup", 20, Course.STARTER)
BAD: Mapping[str, Value] = {"title": "Soup", "minutes": "long"}


def cook(
    desk: Office,
    output: object = Recipe,
    *,
    model: OpenAIModel | None = None,
    config: ModelConfig | None = None,
    completion: Sequence[Requirement] = (),
) -> Agent:
    """The office's agent, with an output."""
    agent = desk.agent()
    return attrs.evolve(
        agent, output=output, model=model or agent.model, config=config or agent.config, completion=completion
    )


def native(desk: Office, support: Literal["none", "without_tools", "with_tools"] = "with_tools") -> OpenAIModel:
    """The office's model, if it could be held to a schema."""
    options = OpenAIOptions(output_support=support)
    return OpenAIModel("m", base_url=desk.stub.url, api_key="sk-test", stream=desk.stream, options=options)
