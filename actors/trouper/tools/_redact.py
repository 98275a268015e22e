"""Keeping secrets from leaving the call that they were given to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from attrs import field, frozen

from trouper.core.conversation import Value
from trouper_journal import Plain

MASK = "[secret]"

_ESCAPE = re.compile("%[0-9A-F]{2}")


def _spellings(secret: str) -> set[str]:
    """The secret as it is, and as ``repr``, JSON and URLs write it: error messages quote requests in those forms."""
    forms = {secret, secret.strip()}
    for plain in tuple(forms):
        forms |= {repr(plain)[1:-1], json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]}
        escaped = plain.encode("utf-8", "surrogatepass")
        quotings = {quote(escaped), quote(escaped, safe=""), quote_plus(escaped)}
        # RFC 3986 lets a program write %2F as %2f.
        forms |= quotings | {_ESCAPE.sub(lambda found: found[0].lower(), each) for each in quotings}
    return forms - {""}


def _longest_first(secrets: Iterable[str]) -> tuple[str, ...]:
    forms = {form for secret in secrets for form in _spellings(secret)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


@frozen(slots=False, repr=False, eq=False)
class Redactor(Plain):
    """Replaces secret values by ``[secret]``.

    It knows each secret as it is, without surrounding whitespace, and as ``repr``, JSON and URL quoting spell it. What
    a tool turns a secret into by itself (a hash, an encryption, a part of it) it cannot know.
    """

    _forms: tuple[str, ...] = field(converter=_longest_first, repr=False)
    _pattern: re.Pattern[str] = field(init=False, repr=False)
    _bytes: re.Pattern[bytes] = field(init=False, repr=False)

    # One pattern, one pass: a second pass would find a secret such as "secret" within the masks of the first.
    @_pattern.default
    def _text_pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self._forms)))

    @_bytes.default
    def _bytes_pattern(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(re.escape(form.encode("utf-8", "surrogatepass")) for form in self._forms))

    def text(self, text: str) -> str:
        """The text with every secret masked."""
        return self._pattern.sub(MASK, text) if self._forms else text

    def bytes(self, data: bytes) -> bytes:
        """The bytes with every secret masked."""
        return self._bytes.sub(MASK.encode(), data) if self._forms else data

    def value(self, value: Value) -> Value:
        """The value with every secret masked, in keys and in bytes too; a number that is a secret is masked whole."""
        return self._masked(value) if self._forms else value

    def _masked(self, value: Value) -> Value:
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self._bytes.sub(MASK.encode(), value)
            case None | bool():
                return value
            case int() | float():
                return MASK if str(value) in self._forms else value
            case Mapping():
                entries: dict[str, Value] = {}
                for key, item in value.items():
                    entries[self._free(self.text(key), entries)] = self._masked(item)
                return entries
            case _:
                return [self._masked(item) for item in value]

    def _free(self, key: str, taken: dict[str, Value]) -> str:
        """A key that is not taken: two keys may differ in nothing but their secrets."""
        number = 2
        name = key
        while name in taken:
            name = f"{key}#{number}"
            number += 1
        return name


NO_SECRETS: Final = Redactor(())
"""Masks nothing."""
