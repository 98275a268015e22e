"""Every Python snippet in docs is run, in the order of its page, in one namespace and an empty folder.

So are the commands of pages that work on the demo's journal (tests/pages/console.py).
"""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser
from tests.pages.console import run_console

# A shell starts what stands in the background with SIGINT ignored, and so would every program that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_HOME = Path.cwd()

# How long an example takes says more about the machine than about the code.
settings.register_profile("whatever the machine", deadline=None)
settings.load_profile("whatever the machine")


def _into_empty_folder(namespace: dict[str, object]) -> None:
    folder = tempfile.TemporaryDirectory()
    namespace["_folder"] = folder
    # attrs, dataclasses and pydantic resolve annotations through the module of a class.
    namespace["__name__"] = "__main__"
    os.chdir(folder.name)


def _back_home(namespace: dict[str, object]) -> None:
    os.chdir(_HOME)
    folder = namespace["_folder"]
    assert isinstance(folder, tempfile.TemporaryDirectory)
    folder.cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("console", run_console), SkipParser()],
    patterns=["*.md"],
    excludes=["README.md", "CHANGELOG.md"],
    setup=_into_empty_folder,
    teardown=_back_home,
).pytest()
