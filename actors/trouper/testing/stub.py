"""The strict stub as a process of its own: ``python -m trouper.testing.stub --script FILE --port 0``.

It prints its port as a line, then serves until it is killed. The script is a JSON list. An answer is a text, or an
object: ``{"text": ..., "calls": [[id, name, arguments], ...], "finish": ..., "usage": {...}, "fields": {...}}``,
``{"deltas": [...], "finish": ...}``, ``{"status": 429, "body": {...}, "headers": {...}}`` or ``{"drop": true}``.
A script that cannot be read ends it with exit code 2 and one line on standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from trouper.core.conversation import Value

from ._answers import USAGE, Answer, Chunks, Drop, Json, Reply, Status, tc
from ._stub import StubRequest, strict_stub

_FIELDS: Final = frozenset(
    {"text", "calls", "finish", "usage", "fields", "deltas", "status", "body", "headers", "drop"}
)


class ScriptError(ValueError):
    """A script that cannot be read."""


def read_script(script: Value) -> list[Answer]:
    """A script from its JSON.

    Raises:
        ScriptError: If it is none.
    """
    if not isinstance(script, list):
        raise ScriptError("a script is a JSON list of answers")
    return [_numbered(number, given) for number, given in enumerate(script, 1)]


def _numbered(number: int, given: Value) -> Answer:
    try:
        return _answer(given)
    except ScriptError as error:
        raise ScriptError(f"answer {number}: {error}") from error


def _answer(given: Value) -> Answer:
    if isinstance(given, str):
        return given
    if not isinstance(given, Mapping):
        raise ScriptError(f"{json.dumps(given)} is neither a text nor an object")
    if unknown := sorted(given.keys() - _FIELDS):
        raise ScriptError(f"there is no field {unknown[0]!r}; the fields are {', '.join(sorted(_FIELDS))}")
    finish = given.get("finish")
    reason = finish if isinstance(finish, str) else None
    if given.get("drop"):
        return Drop()
    if isinstance(status := given.get("status"), int):
        headers = {name: str(value) for name, value in _object(given, "headers").items()}
        return Status(status, _object(given, "body"), headers)
    usage = _object(given, "usage") if "usage" in given else USAGE
    if isinstance(deltas := given.get("deltas"), list):
        return Chunks([delta for delta in deltas if isinstance(delta, Mapping)], reason, usage)
    text = given.get("text")
    return Reply(text if isinstance(text, str) else None, _calls(given), reason, usage, _object(given, "fields"))


def _object(given: Json, name: str) -> Json:
    value = given.get(name, {})
    if not isinstance(value, Mapping):
        raise ScriptError(f"{name} is not an object: {json.dumps(value)}")
    return value


def _calls(given: Json) -> Sequence[Json]:
    calls = given.get("calls", [])
    if not isinstance(calls, list):
        raise ScriptError(f"calls are not a list: {json.dumps(calls)}")
    return [_call(call) for call in calls]


def _call(call: Value) -> Json:
    match call:
        case [str() | None as call_id, str() as name, arguments]:
            return tc(call_id, name, arguments)
        case _:
            raise ScriptError(f"{json.dumps(call)} is not a call: a call is a list of id, name and arguments")


async def _serve(script: list[Answer], port: int, by_turn: bool, log: Path | None) -> None:
    def note(request: StubRequest) -> None:
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(request.body) + "\n")

    async with strict_stub(script, by_turn=by_turn, port=port, on_request=note) as stub:
        sys.stdout.write(stub.url.rpartition(":")[2].partition("/")[0] + "\n")
        sys.stdout.flush()
        await trio.sleep_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="python -m trouper.testing.stub", description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="file with the script")
    parser.add_argument("--port", type=int, default=0, help="port; 0 takes a free one")
    parser.add_argument("--in-order", action="store_true", help="answer in order, not by the request's turn")
    parser.add_argument("--log", type=Path, help="file to which each request's JSON is appended as a line")
    parser.add_argument("--debug", action="store_true", help="show the traceback of a script that cannot be read")
    given = parser.parse_args(arguments)
    try:
        script = read_script(json.loads(given.script.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        if given.debug:
            traceback.print_exc()
        why = error.strerror if isinstance(error, OSError) else error
        sys.stderr.write(f"{parser.prog}: script {given.script}: {why}\n")
        sys.exit(2)
    trio.run(_serve, script, given.port, not given.in_order, given.log)


if __name__ == "__main__":
    main()
