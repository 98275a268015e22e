"""A witness behind HTTP, which speaks C2SP ``tlog-witness`` (c2sp.org/tlog-witness), as public witnesses do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import httpx
import trio

from trouper_journal import WitnessRefused
from trouper_journal.signing import (
    InvalidNote,
    NoteSignature,
    Prove,
    SignedCheckpoint,
    VerifierKey,
    parse_signature,
    write_submission,
)

_MAX_ANSWER: Final = 100_000
_TRIES: Final = 3
_SIZE: Final = "text/x.tlog.size"
_HEADERS: Final = {"Accept-Encoding": "identity"}

_MEANINGS: Final = {
    400: "finds the request malformed",
    403: "does not trust the key that signed the checkpoint",
    404: "does not know the log",
    409: "has cosigned another history of this size: a split view",
    422: "does not accept the proof: the log did not grow from what it has cosigned before",
    429: "asks to be asked less often",
}


class HTTPWitness:
    """Asks a witness to cosign, over HTTP.

    What is sent is the checkpoint and a proof made of hashes: nothing of what the journal holds.

    Args:
        url: The witness's submission prefix, without ``/add-checkpoint``.
        key: Its public key, as pinned.
        timeout: Seconds that a request may take.
    """

    def __init__(self, url: str, key: VerifierKey, *, timeout: float = 30.0) -> None:
        self._url = f"{url.rstrip('/')}/add-checkpoint"
        self._key = key
        self._timeout = timeout
        self._size = 0

    @property
    def key(self) -> VerifierKey:
        """The witness's public key."""
        return self._key

    async def add_checkpoint(self, checkpoint: SignedCheckpoint, prove: Prove) -> Sequence[NoteSignature]:
        """Hand a checkpoint in, with a proof from where the witness stands; if it says that it stands elsewhere, again.

        Cancelled, it is unknown whether the witness has cosigned; to ask again does no harm.

        Raises:
            WitnessRefused: It does not cosign, or cannot be reached.
        """
        size = checkpoint.checkpoint.size
        old = min(self._size, size)
        async with httpx.AsyncClient(timeout=2 * self._timeout, headers=_HEADERS) as client:
            for _ in range(_TRIES):
                body = write_submission(old, await prove(old), checkpoint.note)
                status, kind, answer = await self._post(client, body)
                if status == httpx.codes.OK:
                    self._size = size
                    return [self._line(line) for line in answer.splitlines()]
                if status != httpx.codes.CONFLICT or kind != _SIZE:
                    break
                stands = self._stands(answer)
                if stands > size:
                    raise WitnessRefused(
                        f"{self._key.name} has cosigned {stands} records, the checkpoint has {size}: "
                        "the journal was cut, or is an old copy",
                        stands,
                    )
                old = stands
        meaning = _MEANINGS.get(status, "does not cosign")
        raise WitnessRefused(f"{self._key.name} {meaning} (HTTP status {status})")

    async def _post(self, client: httpx.AsyncClient, body: str) -> tuple[int, str, str]:
        try:
            with trio.fail_after(self._timeout):
                async with client.stream("POST", self._url, content=body.encode()) as response:
                    answer = bytearray()
                    async for part in response.aiter_raw():
                        # Read to its end, as far as the time allows: httpx cannot be left in the middle.
                        answer += part[: _MAX_ANSWER + 1 - len(answer)]
            if len(answer) > _MAX_ANSWER:
                raise WitnessRefused(f"{self._key.name} answers with more than {_MAX_ANSWER:,} bytes")
            return response.status_code, response.headers.get("content-type", ""), answer.decode()
        except trio.TooSlowError as error:
            raise WitnessRefused(f"{self._key.name} has not answered within {self._timeout:g} seconds") from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeDecodeError) as error:
            raise WitnessRefused(f"{self._key.name} cannot be asked: {str(error) or type(error).__name__}") from error

    def _line(self, line: str) -> NoteSignature:
        try:
            return parse_signature(line)
        except InvalidNote as error:
            raise WitnessRefused(f"{self._key.name} answers with something else: {error}") from error

    def _stands(self, answer: str) -> int:
        text = answer.removesuffix("\n")
        if not (text.isascii() and text.isdecimal()) or len(text) > 19:
            raise WitnessRefused(f"{self._key.name} does not say what it has cosigned before")
        return int(text)
