"""What the strictest providers refuse in a Chat Completions request; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from trouper.core import strict_json
from trouper.core.conversation import Value
from trouper.testing._strict_schema import strict_complaints

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ROLES = ("system", "developer", "user", "assistant", "tool")


def violations(body: bytes) -> list[str]:
    """Every rule that a request's body breaks, with its place; an empty list means that it is valid."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return [f"body: is not UTF-8 ({error})"]
    readable, request = strict_json.parse(text)
    if not readable:
        return ["body: is not standard JSON"]
    if not isinstance(request, dict):
        return ["body: is not an object"]
    return list(_request(request))


def _request(request: dict[str, Value]) -> Iterator[str]:
    if _lone_surrogate(request):
        yield "body: holds a lone surrogate"
    if not isinstance(request.get("model"), str) or not request["model"]:
        yield "model: is missing"
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages: is not a list of messages"
    else:
        yield from _messages(messages)
    yield from _response_format(request.get("response_format"))
    tools = request.get("tools")
    if tools is None:
        yield from (f"{key}: stands without tools" for key in ("tool_choice", "parallel_tool_calls") if key in request)
    elif not isinstance(tools, list) or not tools:
        yield "tools: is not a list of tools"
    else:
        yield from _tools(tools)
        yield from _choice(request.get("tool_choice"), tools)


def _messages(messages: list[Value]) -> Iterator[str]:
    open_ids: list[str] = []
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            yield f"{path}: is not a message with one of the roles {', '.join(_ROLES)}"
            continue
        if message["role"] == "tool":
            yield from _tool_message(message, open_ids, path)
            continue
        if open_ids:
            yield f"{path}: the calls {', '.join(open_ids)} have no tool message before it"
            open_ids = []
        yield from _content(message, path)
        if message["role"] == "assistant" and message.get("tool_calls") is not None:
            yield from _calls(message["tool_calls"], open_ids, f"{path}.tool_calls")
    if open_ids:
        yield f"messages: the calls {', '.join(open_ids)} at the end have no tool message"


def _tool_message(message: dict[str, Value], open_ids: list[str], path: str) -> Iterator[str]:
    call_id = message.get("tool_call_id")
    if isinstance(call_id, str) and call_id in open_ids:
        open_ids.remove(call_id)
    else:
        yield f"{path}.tool_call_id: {call_id!r} is no call that waits for a tool message"
    if not isinstance(message.get("content"), str | list):
        yield f"{path}.content: is neither text nor a list of parts"
    for place, part in enumerate(content) if isinstance(content := message.get("content"), list) else ():
        if not isinstance(part, dict) or part.get("type") != "text":
            yield f"{path}.content[{place}]: only text is allowed for messages with role 'tool'"


def _content(message: dict[str, Value], path: str) -> Iterator[str]:
    content = message.get("content")
    if content is None and message["role"] == "assistant" and message.get("tool_calls"):
        return
    if not isinstance(content, str | list) or content == []:
        yield f"{path}.content: is neither text nor a list of parts"


def _calls(calls: Value, open_ids: list[str], path: str) -> Iterator[str]:
    if not isinstance(calls, list) or not calls:
        yield f"{path}: is not a list of calls"
        return
    for index, call in enumerate(calls):
        here = f"{path}[{index}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict) or call.get("type") != "function":
            yield f"{here}: is not a call of a function"
            continue
        call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
        if not isinstance(call_id, str) or not _NAME.match(call_id):
            yield f"{here}.id: {call_id!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$"
        elif call_id in open_ids:
            yield f"{here}.id: {call_id!r} is used twice in one message"
        else:
            open_ids.append(call_id)
        if not isinstance(name, str) or not _NAME.match(name):
            yield f"{here}.function.name: {name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$"
        parsed = strict_json.arguments_object(arguments) if isinstance(arguments, str) else None
        if parsed is None or _lone_surrogate(parsed):
            yield f"{here}.function.arguments: {arguments!r} is not the text of a JSON object"


def _lone_surrogate(value: Value) -> bool:
    # Written as an escape it passes for JSON in Python, and almost nowhere else.
    text = json.dumps(value, ensure_ascii=False)
    return strict_json.valid_text(text) != text


def _response_format(given: Value) -> Iterator[str]:
    if given is None or (isinstance(given, dict) and given.get("type") in {"text", "json_object"}):
        return
    wanted = given.get("json_schema") if isinstance(given, dict) and given.get("type") == "json_schema" else None
    if not isinstance(wanted, dict):
        yield "response_format: is none of text, json_object and json_schema"
        return
    name, schema = wanted.get("name"), wanted.get("schema")
    if not isinstance(name, str) or not _NAME.match(name):
        yield f"response_format.json_schema.name: {name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$"
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield "response_format.json_schema.schema: is not the schema of an object"
    elif wanted.get("strict") is True:
        yield from _strict_schema(schema, "response_format.json_schema.schema")


def _strict_schema(schema: Value, path: str) -> Iterator[str]:
    """What keeps OpenAI from guaranteeing a schema."""
    if isinstance(schema, list):
        for index, part in enumerate(schema):
            yield from _strict_schema(part, f"{path}[{index}]")
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    if schema.get("type") == "object":
        named = properties if isinstance(properties, dict) else {}
        if schema.get("additionalProperties") is not False:
            yield f"{path}: is not closed by additionalProperties: false"
        if sorted(named) != sorted(map(str, required if isinstance(required := schema.get("required"), list) else [])):
            yield f"{path}: does not require all of its properties"
    for key, value in properties.items() if isinstance(properties, dict) else ():
        yield from _strict_schema(value, f"{path}.{key}")
    for key in ("items", "anyOf"):
        yield from _strict_schema(schema.get(key), f"{path}.{key}")


def _choice(choice: Value, tools: list[Value]) -> Iterator[str]:
    function = choice.get("function") if isinstance(choice, dict) else None
    known = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    names = [each.get("name") for each in known if isinstance(each, dict)]
    if isinstance(choice, dict) and (not isinstance(function, dict) or function.get("name") not in names):
        yield f"tool_choice: {choice!r} names none of the tools"
    elif not isinstance(choice, dict) and choice not in (None, "auto", "none", "required"):
        yield f"tool_choice: {choice!r} is none of auto, none, required"


def _tools(tools: list[Value]) -> Iterator[str]:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            yield f"{path}: is not a function"
            continue
        name, parameters = function.get("name"), function.get("parameters")
        if not isinstance(name, str) or not _NAME.match(name):
            yield f"{path}.function.name: {name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$"
        elif name in names:
            yield f"{path}.function.name: {name!r} is used twice"
        else:
            names.add(name)
        if not isinstance(parameters, dict) or parameters.get("type") != "object":
            yield f"{path}.function.parameters: is not the schema of an object"
        elif function.get("strict") is True:
            yield from strict_complaints(parameters, f"{path}.function.parameters")
