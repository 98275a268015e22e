"""The one cipher that seals content and keys: AES-256-GCM (NIST SP 800-38D), from the package ``cryptography``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from trouper_journal._errors import JournalCorrupt, MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_SIZE: Final = 32
"""Bytes of a key."""


class SealBroken(JournalCorrupt):
    """Sealed bytes do not open with their key: they, or what they are bound to, were changed."""


@final
class Cipher:
    """Seals and opens with one key.

    Raises:
        MissingExtra: The package ``cryptography`` is not installed.
    """

    __slots__ = ("_aes", "_broken")

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingExtra("sealing needs", "cryptography", "audit") from error
        self._aes: Final[AESGCM] = AESGCM(key)
        self._broken: Final[type[Exception]] = InvalidTag

    def seal(self, nonce: bytes, data: bytes, context: bytes) -> bytes:
        """Ciphertext and tag. A nonce must not be used twice for different data."""
        return self._aes.encrypt(nonce, data, context)

    def open(self, nonce: bytes, sealed: bytes, context: bytes) -> bytes:
        """What was sealed.

        Raises:
            SealBroken: It was changed, or sealed with another key or for another place.
        """
        try:
            return self._aes.decrypt(nonce, sealed, context)
        except (self._broken, ValueError):  # or too short to have been sealed
            raise SealBroken("sealed bytes do not open with their key") from None
