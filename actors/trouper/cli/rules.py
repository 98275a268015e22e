"""Standing rules on the command line: ``trouper rules``, and what ``trouper approve --remember`` means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypedDict, TypeVar

import click
from rich.text import Text

from trouper.approvals import Scope
from trouper.cli.changing import AS, REASON
from trouper.cli.codes import Exit, UsageError
from trouper.cli.command import paged_command, run_async
from trouper.cli.damage import KEEP_GOING
from trouper.cli.journals import json_arguments, opened, opened_to_read, person, until_moment
from trouper.cli.looking import JOURNAL
from trouper.cli.output import Output, styled
from trouper.core.rules import StandingRule
from trouper.narration.line import reason_text
from trouper.narration.narrate_approvals import scope_text
from trouper.narration.plain import fields, moment, plain
from trouper.narration.text import CUT, claim, clean, who
from trouper.narration.when import when
from trouper.runtime import Commands
from trouper_journal import ERASED, Erased

_F = TypeVar("_F", bound=Callable[..., object])
T = TypeVar("T")


class Remembering(TypedDict):
    """Options of ``trouper approve`` that make a standing rule."""

    remember: bool
    like: str | None
    uses: int | None
    until: str | None
    this_run: bool
    this_session: bool
    any_agent: bool


_OPTIONS = (
    click.option("--remember", is_flag=True, help="Approve calls like it from now on, too: a standing rule."),
    click.option("--like", metavar="JSON", help="With --remember: arguments that must be these; {} for any call."),
    click.option("--uses", type=click.IntRange(min=1), help="With --remember: for so many further calls."),
    click.option("--until", metavar="MOMENT", help="With --remember: ISO 8601 with a time zone."),
    click.option("--this-run", is_flag=True, help="With --remember: for this run alone, with all below it."),
    click.option("--this-session", is_flag=True, help="With --remember: for the runs of its session alone."),
    click.option("--any-agent", is_flag=True, help="With --remember: for whichever agent calls."),
)


def remembering(body: _F) -> _F:
    """Add the options of a standing rule to a command."""
    for option in reversed(_OPTIONS):
        body = option(body)
    return body


def scope_of(given: Remembering) -> Scope | None:
    """The scope that a command line gives; None where nothing is to be remembered.

    Raises:
        UsageError: A scope without ``--remember``, or an option that cannot be meant.
    """
    flags = (given["this_run"], given["this_session"], given["any_agent"])
    if not given["remember"]:
        if any(flags) or any(given[name] is not None for name in ("like", "uses", "until")):
            raise UsageError("--like, --uses, --until, --this-run, --this-session and --any-agent go with --remember")
        return None
    return Scope(
        arguments=None if given["like"] is None else json_arguments("--like", given["like"]),
        agent="*" if given["any_agent"] else None,
        run=given["this_run"],
        session=given["this_session"],
        until=None if given["until"] is None else until_moment(given["until"]),
        uses=given["uses"],
    )


@paged_command
@JOURNAL
@KEEP_GOING
@click.argument("verb", type=click.Choice(["list", "revoke"]), default="list")
@click.argument("rule", required=False)
@AS
@REASON
def rules(
    output: Output,
    /,
    journal: Path,
    verb: Literal["list", "revoke"],
    *,
    rule: str | None,
    name: str | None,
    reason: str | None,
) -> Exit:
    """List the standing rules, or revoke one.

    A standing rule is somebody's approval of calls to come; `trouper approve --remember` makes one. Revoked, it lets no
    call run that is planned from then on.
    """
    if (verb == "revoke") != (rule is not None):
        raise UsageError("give the id of the rule to revoke: trouper rules JOURNAL revoke RULE")

    async def main() -> Exit:
        async with (opened_to_read if rule is None else opened)(journal) as opened_journal:
            commands = Commands(opened_journal)
            if rule is not None:
                _print(output, await commands.revoke_rule(rule, by=person(name), reason=reason), commands.clock.now())
                return Exit.OK
            found = await commands.rules()
            for each in found:
                _print(output, each, commands.clock.now())
            if not found:
                output.nothing("there are no standing rules")
        return Exit.OK

    return run_async(main)


def _print(output: Output, rule: StandingRule, now: int) -> None:
    standing = rule.stands(now)
    if output.as_json:
        told = {
            **fields(rule),
            "arguments": plain(_kept(rule, rule.arguments)),
            "by": plain(_kept(rule, rule.by)),
            "reason": plain(_kept(rule, rule.reason)),
            "revoked_by": plain(_kept(rule, rule.revoked_by)) if rule.revoked else None,
            "used": sorted(rule.used),
            "expires_at": None if rule.until is None else moment(rule.until),
            "left": rule.left,
            "stands": standing,
        }
        del told["until"]
        output.json(told)
        return
    by, reason = _kept(rule, rule.by), reason_text(_kept(rule, rule.reason), CUT)
    output.result(
        Text.assemble(f"rule {clean(rule.rule)}  ", (_state(rule, now), "green" if standing else "red")),
        styled(f"  {scope_text(rule, None)}"),
        styled(f"  by {who(by)} {claim(by)}{reason}; made of {clean(rule.action)}", "dim"),
    )


def _kept(rule: StandingRule, value: T) -> T | Erased:
    """What a rule holds of content; whoever reads it without that has no arguments either."""
    return ERASED if rule.arguments is None and value is None else value


def _state(rule: StandingRule, now: int) -> str:
    if rule.revoked:
        return f"revoked by {who(_kept(rule, rule.revoked_by))}"
    if rule.until is not None and rule.until <= now:
        return f"ended at {when(rule.until)}"
    if rule.left == 0:
        return "used up"
    return "stands" if rule.left is None else f"stands, {rule.left} of {rule.uses} left"
