"""Texts with an end that browsers keep for this installation: `<kind>.<content>.<end>.<more>.<signature>`.

The signature is made with the installation's key. The content can be read by the browser, and not changed.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from streamsched.domain.access.token import secret_text
from streamsched.ports.clock import Clock
from streamsched.store.access.tokens import TokenStore

#: Most characters of a signed text; browsers drop cookies of more than 4096 bytes with their name and attributes.
LONGEST_COOKIE: Final = 3700


class SignedTexts:
    """Signs texts and reads them."""

    def __init__(self, tokens: TokenStore, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._key: bytes | None = None

    async def sign(self, text: str) -> str:
        """The text with its signature."""
        signature = hmac.digest(await self.key(), f"web\0{text}".encode(), "sha256")
        return f"{text}.{secret_text(signature)}"

    async def read(self, kind: str, text: str, parts: int) -> list[str] | None:
        """The parts of a text with a valid signature that has not ended; None for any other text."""
        found = text.split(".")
        if len(text) > LONGEST_COOKIE or len(found) != parts or found[0] != kind or not text.isascii():
            return None
        if not hmac.compare_digest(await self.sign(text.rpartition(".")[0]), text):
            return None
        return found if int(found[2]) > seconds(self._clock.now()) else None

    async def key(self) -> bytes:
        """The installation's key."""
        if self._key is None:
            self._key = await self._tokens.key()
        return self._key


def pack(value: Any) -> str:
    """A value of JSON as the content of a signed text."""
    return urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def unpack(content: str) -> Any:
    """The value that `pack` made the content of. The signature is checked before."""
    return orjson.loads(urlsafe_b64decode(content + "=" * (-len(content) % 4)))


def seconds(instant: datetime) -> int:
    """An end as it is written."""
    return int(instant.astimezone(UTC).timestamp())
