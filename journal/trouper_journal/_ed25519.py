"""Ed25519 (RFC 8032), by the package ``cryptography``, which comes with the extra ``audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trouper_journal._errors import MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519

KEY_SIZE: Final = 32
"""Bytes of a seed, and of a public key."""

SIGNATURE_SIZE: Final = 64
"""Bytes of a signature."""


_FIELD: Final = 2**255 - 19

_WEAK: Final = frozenset(
    {
        0,
        1,
        _FIELD - 1,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    }
)
"""The y of the points of small order (1, 2, 4 and 8): with such a key one signature fits many texts, as all know."""


def is_weak(public: bytes) -> bool:
    """Whether a public key is a point of small order, or written otherwise than RFC 8032 writes points."""
    y = int.from_bytes(public, "little") & (2**255 - 1)
    return y >= _FIELD or y in _WEAK


def _library() -> type[ed25519.Ed25519PrivateKey]:
    """The class of private keys.

    Raises:
        MissingExtra: The package is not installed.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise MissingExtra("signatures need", "cryptography", "audit") from error
    return Ed25519PrivateKey


def public_key(seed: bytes) -> bytes:
    """The public key of a private one.

    Raises:
        MissingExtra: The package is not installed.
    """
    return _library().from_private_bytes(seed).public_key().public_bytes_raw()


def sign(seed: bytes, message: bytes) -> bytes:
    """A signature.

    Raises:
        MissingExtra: The package is not installed.
    """
    return _library().from_private_bytes(seed).sign(message)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether a signature is that of a message by a key.

    Raises:
        MissingExtra: The package is not installed.
    """
    _library()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
