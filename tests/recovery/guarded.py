"""An agent whose tools are chosen, permitted, authorized, tried again, and end its run."""

from __future__ import annotations

from tests.recovery.scenario import Stage, model

from trouper import Agent, AuthorizeRequest, Image, Retry, StepView, ToolContext, ToolResult, TransientError, tool
from trouper.testing import call, calls

PIXEL = b"\x89PNG\r\n\x1a\n"


def guarded(stage: Stage) -> Agent:
    """Gathers twice, where the first attempt fails in passing; may not export; hands its last result over."""

    def authorize(request: AuthorizeRequest) -> bool:
        stage.requests.add(index=-1, asked=request.action, body="", violations=[])
        return True

    @tool(effect="idempotent_write", retry=Retry(5, initial=0), max_result=9, authorize=authorize)
    def gather(n: int, ctx: ToolContext) -> object:
        """Gather."""
        stage.fate.reach("entered")
        stage.effects.add(key=ctx.effect_key, attempt=ctx.attempt, n=n)
        stage.fate.reach("applied")
        if ctx.attempt == 1:
            raise TransientError("busy")
        if n == 1:
            return ToolResult("gathered all that there was", artifact={"n": n, "raw": b"\x00" * 40_000})
        return ["gathered all", Image(PIXEL)]

    @tool(effect="read_only", permissions=("export",))
    def export() -> str:
        """Export."""
        stage.fate.reach("entered")
        return "exported"

    @tool(effect="read_only", return_direct=True)
    def finish() -> str:
        """Finish."""
        return "done"

    def bind(step: StepView) -> tuple[str, ...]:
        return (("gather", "export"), ("gather",), ("finish",))[step.index]

    replies = (calls(call("gather", n=1), call("export")), call("gather", n=2), call("finish"))
    return Agent("desk", tools=[gather, export, finish], model=model(stage, *replies), bind=bind)
