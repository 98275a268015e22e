"""Well-known forms of keys and tokens, as their issuers publish them so that scanners can find them. Pure.

The forms are those of the issuers' documentation (AWS access key ids, GitHub's and GitLab's prefixed tokens, Slack,
Stripe, Google, OpenAI, Anthropic, npm, PyPI, Hugging Face), of RFC 7468 (private keys) and RFC 7519 (signed tokens).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from attrs import frozen

_WORD: Final = rb"(?<![A-Za-z0-9_-])"
_PATTERNS: Final[tuple[tuple[str, bytes, bytes], ...]] = (
    ("AWS access key id", b"AKIA", rb"AKIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("AWS temporary access key id", b"ASIA", rb"ASIA[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("GitHub token", b"gh", rb"gh[pousr]_[A-Za-z0-9]{36,}"),
    ("GitHub fine-grained token", b"github_pat_", rb"github_pat_[A-Za-z0-9_]{40,}"),
    ("GitLab token", b"glpat-", rb"glpat-[A-Za-z0-9_-]{20,}"),
    ("Anthropic key", b"sk-ant-", rb"sk-ant-[A-Za-z0-9_-]{20,}"),
    ("OpenAI key", b"sk-", rb"sk-(?!ant-)(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}"),
    ("Slack token", b"xox", rb"xox[abeoprs]-[A-Za-z0-9-]{16,}"),
    ("Stripe key", b"k_live_", rb"[rs]k_live_[A-Za-z0-9]{16,}"),
    ("Google API key", b"AIza", rb"AIza[0-9A-Za-z_-]{35}"),
    ("npm token", b"npm_", rb"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", b"pypi-", rb"pypi-AgE[A-Za-z0-9_-]{50,}"),
    ("Hugging Face token", b"hf_", rb"hf_[A-Za-z0-9]{30,}"),
    ("private key", b"PRIVATE KEY-----", rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"),
    ("signed token (JWT)", b"eyJ", rb"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}"),
    ("password in a URL", b"://", rb"[a-z][a-z0-9+.-]{1,20}://[^\s:/@\x00-\x20]{1,100}:[^\s:/@\x00-\x20]{3,100}@"),
)
# Bytes of a marker are looked for first: that goes at the speed of memory, a pattern does not.
_COMPILED: Final = tuple((kind, marker, re.compile(_WORD + pattern)) for kind, marker, pattern in _PATTERNS)


@frozen
class Sighting:
    """What looks like a secret.

    Attributes:
        kind: Whose, as far as its form tells.
        length: Its length in bytes; what it is stands nowhere.
    """

    kind: str
    length: int


def find_secrets(data: bytes) -> Iterator[Sighting]:
    """Everything in some bytes that has the form of a well-known kind of secret."""
    for kind, marker, pattern in _COMPILED:
        if marker in data:
            for found in pattern.finditer(data):
                yield Sighting(kind, len(found[0]))
