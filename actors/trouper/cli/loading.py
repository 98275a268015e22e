"""Finding agents, and witnesses, in a Python file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from attrs import frozen

from trouper.agent import Agent
from trouper.cli.codes import NotFoundError, UsageError
from trouper.cli.pinned import public_key
from trouper_journal.signing import InvalidKey, SignatureType, Witness


@frozen
class Loaded:
    """What a file holds.

    Attributes:
        agent: The agent asked for.
        others: The other agents of the file, whose unfinished runs go on too.
    """

    agent: Agent
    others: Sequence[Agent]


def load(target: str) -> Loaded:
    """The agent in ``FILE:AGENT``, where AGENT is the name of a variable of the file, or the agent's own.

    Without ``:AGENT`` it is the file's one agent. The file is run as a module, with its folder on the path.

    Raises:
        NotFoundError: No such file, or no such agent in it.
        UsageError: The file cannot be run, or it is not clear which agent is meant.
    """
    file, name = _split(target)
    if not file.is_file():
        raise NotFoundError(f"there is no file {file}")
    module = _run(file)
    found = {variable: value for variable, value in vars(module).items() if isinstance(value, Agent)}
    agent = _pick(file, name, found)
    others: dict[str, Agent] = {}
    for other in found.values():
        if other.name != agent.name:
            others.setdefault(other.name, other)
    return Loaded(agent, tuple(others.values()))


def load_witness(target: str) -> Witness:
    """The witness in ``FILE:NAME``, where NAME is the name of a variable of the file.

    Raises:
        NotFoundError: No such file, or no such variable in it.
        UsageError: The file cannot be run, or the variable is no witness.
    """
    file, name = _split(target)
    if name is None:
        raise UsageError(f"{target!r} is not of the form FILE:NAME")
    if not file.is_file():
        raise NotFoundError(f"there is no file {file}")
    found: object = vars(_run(file)).get(name)
    if found is None:
        raise NotFoundError(f"{file} has no {name}")
    if not isinstance(found, Witness):
        raise UsageError(f"{target} is no witness: it has no key and no add_checkpoint")
    return found


def http_witness(url: str, key: str) -> Witness:
    """A witness behind HTTP.

    Args:
        url: Its submission prefix.
        key: Its public key: the text, or a file that holds it.

    Raises:
        UsageError: It is no URL.
        NotFoundError: The key's file is not there.
        InvalidKey: It is no witness's key.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--witness-url: {url!r} is no URL, such as https://witness.example/submit")
    public = public_key(key)
    if public.kind is not SignatureType.COSIGNATURE:
        raise InvalidKey(f"the key of {public.name} is not a witness's")
    made: object = import_module("trouper_adapters.witness_http").HTTPWitness(url, public)
    assert isinstance(made, Witness)
    return made


def _split(target: str) -> tuple[Path, str | None]:
    file, colon, name = target.rpartition(":")
    if not colon or target.endswith(".py"):
        return Path(target), None
    if not file or not name:
        raise UsageError(f"{target!r} is not of the form FILE:AGENT")
    return Path(file), name


def _run(file: Path) -> ModuleType:
    name = file.stem
    if name in sys.modules:
        name = f"{name}_agents"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    # attrs, dataclasses and pydantic resolve annotations through the module of a class.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        guard = 'if __name__ == "__main__":'
        raise UsageError(f"{file} ends the program when it is loaded: put that under {guard}") from error
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        line = f" (line {place.lineno})" if Path(place.filename).resolve() == file.resolve() else ""
        raise UsageError(f"{file}{line} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _pick(file: Path, name: str | None, found: dict[str, Agent]) -> Agent:
    if name is None:
        if len({id(agent) for agent in found.values()}) == 1:
            return next(iter(found.values()))
        there = ", ".join(f"{file}:{variable}" for variable in found) or "no agent"
        raise UsageError(f"say which agent is meant; there: {there}")
    if name in found:
        return found[name]
    named = [agent for agent in found.values() if agent.name == name]
    if not named:
        there = ", ".join(found) or "none"
        raise NotFoundError(f"{file} has no agent {name}; agents: {there}")
    return named[0]
