"""Hooks that do what a test says, and note what they were shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from trouper import AI
from trouper.hooks import (
    Call,
    CallResult,
    Hook,
    ModelFailure,
    View,
)
from trouper.hooks._hook import Asked

Does: TypeAlias = Callable[..., Asked]


class Before(Hook):
    """Calls a function before each model call."""

    def __init__(self, does: Does) -> None:
        self.does = does
        self.seen: list[View] = []

    async def before_model(self, view: View) -> Asked:
        self.seen.append(view)
        return self.does(view)


class After(Hook):
    def __init__(self, does: Does) -> None:
        self.does = does

    def after_model(self, view: View, reply: AI) -> Asked:
        return self.does(view, reply)


class BeforeTool(Hook):
    def __init__(self, does: Does) -> None:
        self.does = does
        self.seen: list[Call] = []

    def before_tool(self, view: View, call: Call) -> Asked:
        self.seen.append(call)
        return self.does(view, call)


class AfterTool(Hook):
    def __init__(self, does: Does) -> None:
        self.does = does
        self.seen: list[CallResult] = []

    async def after_tool(self, view: View, call: Call, result: CallResult) -> Asked:
        self.seen.append(result)
        return self.does(view, call, result)


class OnError(Hook):
    def __init__(self, does: Does) -> None:
        self.does = does
        self.seen: list[ModelFailure] = []

    async def on_error(self, view: View, error: ModelFailure) -> Asked:
        self.seen.append(error)
        return self.does(view, error)


def contents(messages: Sequence[object]) -> list[object]:
    return [message["content"] for message in messages if isinstance(message, dict)]
