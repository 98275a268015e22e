"""Images, sounds and files as content parts of messages and of tools' results."""

from __future__ import annotations

import base64
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from trouper.core.conversation import Part
from trouper_journal import Plain

# What the formats begin with.
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def _known_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def _data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def _check_bytes(what: str, data: object) -> None:
    if not isinstance(data, bytes) or not data:
        raise ValueError(f"{what}: give its bytes, not {'nothing' if data == b'' else type(data).__name__}")


@frozen(slots=False, repr=False, eq=False)
class Image(Plain):
    """An image, by its bytes or by an address that the provider can read.

    Attributes:
        data: Its bytes; None where ``url`` is given.
        url: Its address; None where ``data`` is given.
        media_type: Such as ``image/png``; found in the data for PNG, JPEG, GIF and WebP.
        detail: How closely a model shall look, in the provider's words.

    Raises:
        ValueError: Neither or both of data and url, or data of an unknown type.
    """

    data: bytes | None = field(default=None, repr=False)
    url: str | None = field(default=None, kw_only=True)
    media_type: str | None = field(default=None, kw_only=True)
    detail: Literal["low", "high", "auto"] | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise ValueError("image: give either its data or its url")
        if self.data is not None:
            _check_bytes("image", self.data)
            if self.media_type is None and _known_type(self.data) is None:
                raise ValueError("image: its type cannot be told from its data; give media_type, such as 'image/png'")

    def part(self) -> Part:
        """The image as a content part, in Chat Completions' form."""
        url = self.url
        if self.data is not None:
            url = _data_url(self.data, self.media_type or _known_type(self.data) or "")
        shown = {"url": url} if self.detail is None else {"url": url, "detail": self.detail}
        return {"type": "image_url", "image_url": shown}


@frozen(slots=False, repr=False, eq=False)
class Audio(Plain):
    """A sound, for models that listen.

    Attributes:
        data: Its bytes.
        format: Their format, such as ``wav`` or ``mp3``.

    Raises:
        ValueError: No data.
    """

    data: bytes = field(repr=False)
    format: str = "wav"

    def __attrs_post_init__(self) -> None:
        _check_bytes("audio", self.data)

    def part(self) -> Part:
        """The sound as a content part, in Chat Completions' form."""
        data = base64.b64encode(self.data).decode("ascii")
        return {"type": "input_audio", "input_audio": {"data": data, "format": self.format}}


@frozen(slots=False, repr=False, eq=False)
class File(Plain):
    """A file, such as a PDF, for models that read such files.

    Attributes:
        data: Its bytes.
        name: Its name.
        media_type: Such as ``application/pdf``.

    Raises:
        ValueError: No data.
    """

    data: bytes = field(repr=False)
    name: str
    media_type: str = "application/pdf"

    def __attrs_post_init__(self) -> None:
        _check_bytes("file", self.data)

    def part(self) -> Part:
        """The file as a content part, in Chat Completions' form."""
        return {"type": "file", "file": {"filename": self.name, "file_data": _data_url(self.data, self.media_type)}}


Media: TypeAlias = Image | Audio | File
"""What is content and no text."""
