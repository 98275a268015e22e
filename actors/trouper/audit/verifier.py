"""The program that checks bundles, as the one file that goes with them."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

_IMPORT: Final = re.compile(r"^(?:import|from) (?:[^(\n]+|[^(\n]+\([^)]*\))\n", re.MULTILINE)
_FUTURE: Final = "from __future__ import annotations\n"
_OURS: Final = "from trouper"


def verifier_source() -> str:
    """The program that checks bundles: one file, which needs nothing but Python's standard library.

    Here it is two modules: what is checked, and the forms that evidence is written in. The file holds the second in the
    place where the first imports it.
    """
    checks, forms = (_read(name) for name in ("verify_bundle.py", "verify_forms.py"))
    about = checks.partition(_FUTURE)[0]
    imports = {*_IMPORT.findall(_head(checks)), *_IMPORT.findall(_head(forms))} - {_FUTURE}
    taken = sorted((line for line in imports if not line.startswith(_OURS)), key=lambda line: (line[0] != "i", line))
    return f"{about}{_FUTURE}\n{''.join(taken)}\n\n{_body(forms)}\n\n{_body(checks)}"


def _read(name: str) -> str:
    return resources.files("trouper.audit").joinpath(name).read_text("utf-8")


def _head(text: str) -> str:
    """All up to the last import."""
    return text[: [found.end() for found in _IMPORT.finditer(text)][-1]]


def _body(text: str) -> str:
    return text[len(_head(text)) :].strip("\n") + "\n"
