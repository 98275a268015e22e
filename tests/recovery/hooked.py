"""An agent with hooks at every point and named state, which note each of their calls outside of the journal."""

from __future__ import annotations

from tests.recovery.fate import Ledger
from tests.recovery.scenario import Stage, model

from trouper import AI, Agent, Human, StateKey, ToolContext, ToolResult, tool
from trouper.errors import ModelError
from trouper.hooks import (
    Answer,
    Call,
    CallResult,
    Hook,
    Insert,
    ModelFailure,
    Redact,
    SetArguments,
    Update,
    UseModel,
    View,
)
from trouper.hooks._hook import Asked
from trouper.testing import call, calls


def hook_calls(stage: Stage) -> Ledger:
    """To which each call of a hook adds a line."""
    return Ledger(stage.directory / "hooks")


class Noting(Hook):
    """Changes something at every point, and says so outside."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def _note(self, point: str, subject: str) -> None:
        hook_calls(self._stage).add(life=self._stage.life, point=point, subject=subject)
        self._stage.fate.reach("hooked")

    async def before_model(self, view: View) -> Asked:
        self._note("before_model", str(view.index))
        update = Update({"seen": view.index})
        return [Insert(Human("", f"word {view.index}"), after=view.messages[0].id), update]

    async def after_model(self, view: View, reply: AI) -> Asked:
        self._note("after_model", str(view.index))
        return None

    async def before_tool(self, view: View, call: Call) -> Asked:
        self._note("before_tool", call.action)
        if call.arguments == {"n": 1}:
            return SetArguments({"n": 10})
        return Answer("not now", ok=False) if call.arguments == {"n": 2} else None

    def after_tool(self, view: View, call: Call, result: CallResult) -> Asked:
        self._note("after_tool", call.action)
        return Answer(f"{result.text}!")

    async def on_error(self, view: View, error: ModelFailure) -> Asked:
        self._note("on_error", f"{view.index}.{error.attempt}")
        return UseModel("second", error.message)


def hooked(stage: Stage) -> Agent:
    """Three turns: two calls of which a hook answers one, a call whose model is down, and the end."""

    @tool(effect="idempotent_write")
    def add(n: int, ctx: ToolContext) -> ToolResult:
        """Add a number, and write it down."""
        stage.fate.reach("entered")
        stage.effects.add(key=ctx.effect_key, attempt=ctx.attempt, n=n, before=list(ctx.state["notes"]))
        stage.fate.reach("applied")
        return ToolResult(f"added {n}", update={"notes": n})

    down = ModelError("down")
    first = model(stage, calls(call("add", n=1), call("add", n=2)), down, "done")
    second = model(stage, "never", call("add", n=3), "never")
    return Agent(
        "desk",
        tools=[add],
        model=first,
        models={"second": second},
        hooks=[Noting(stage), Redact(["word 1"], "***")],
        state={"notes": StateKey(list[int], "append"), "seen": StateKey(list[int], "append")},
    )
