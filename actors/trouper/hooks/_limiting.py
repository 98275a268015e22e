"""A limit to the calls of a tool."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from trouper.core.conversation import Value
from trouper.core.hook_ops import Answer, Fail

from ._checks import whole
from ._hook import Call, Hook, View


@frozen(slots=False, eq=False)
class ToolCallLimit(Hook):
    """Lets a run call a tool so many times; then the model is told that it may not any more.

    Counted are the calls of this run that hooks let through, whatever became of them; calls of one reply are counted
    in the order asked. A sub-agent's run has a count of its own.

    Attributes:
        tool: The tool's name; None for all tools together.
        n: How many calls are let through.
        fail: Whether the run fails in place of telling the model; it can be resumed, and fails there again.

    Raises:
        DefinitionError: ``n`` is not a whole number of at least 1.
    """

    tool: str | None
    n: int = field(validator=whole)
    fail: bool = field(default=False, kw_only=True)

    def identity(self) -> Mapping[str, Value]:
        """Name and settings."""
        return {"hook": self.name, "tool": self.tool, "n": self.n, "fail": self.fail}

    async def before_tool(self, view: View, call: Call) -> Answer | Fail | None:
        """Let the call through, or answer it."""
        if self.tool is not None and call.tool != self.tool:
            return None
        made = sum(view.passed.values()) if self.tool is None else view.passed.get(self.tool, 0)
        if made < self.n:
            return None
        what = "calls" if self.tool is None else f"calls of {self.tool}"
        if self.fail:
            return Fail(f"the limit of {self.n} {what} is reached")
        return Answer(f"Not started: the limit of {self.n} {what} is reached. Go on without it.", ok=False)
