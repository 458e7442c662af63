"""Sessions of people in browsers. A session begins with an API token or a login code, and is a signed text in a cookie:
the token's id and an end. No process stores it, so every API process accepts it; it ends early with its token.

| text | of |
|---|---|
| `session.<token id>.<end>.<signature>` | the cookie |
| `code.<token id>.<end>.<nonce>.<signature>` | a login link of `streamsched dev` |

The signature is made with the installation's key. A code is accepted once by a process.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from streamsched.domain.access.grant import Caller
from streamsched.domain.access.token import StoredTokenText, read_token, secret_text
from streamsched.domain.errors import UnauthenticatedError
from streamsched.ports.access.tokens import FoundToken, TokenStore
from streamsched.ports.clock import Clock

#: How long a session lasts, and how long a login code may be used.
SESSION: Final = timedelta(hours=12)
CODE: Final = timedelta(minutes=15)
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who uses the pages, and the token that the forms of this session carry."""

    caller: Caller
    csrf: str


class Sessions:
    """Begins and reads sessions. `everybody`: the caller of an installation that needs no tokens."""

    def __init__(self, tokens: TokenStore, clock: Clock, *, everybody: Caller | None = None) -> None:
        self._tokens = tokens
        self._clock = clock
        self._everybody = everybody
        self._key: bytes | None = None
        self._used: dict[str, datetime] = {}

    @property
    def needed(self) -> bool:
        """Whether pages need a session."""
        return self._everybody is None

    async def cookie_name(self) -> str:
        """Differs between installations: browsers share the cookies of all ports of a host."""
        return f"streamsched_{sha256(b'cookie' + await self._signing_key()).hexdigest()[:8]}"

    async def begin(self, token: str) -> str:
        """The cookie of a new session.

        Raises:
            UnauthenticatedError: it is not a valid token of this installation, or that of a run.
        """
        given = read_token(token.strip())
        if not isinstance(given, StoredTokenText):
            raise UnauthenticatedError("this is not a token that `streamsched token create` printed")
        found = await self._tokens.find(given.id)
        if found is None or not hmac.compare_digest(found.digest, given.digest):
            raise UnauthenticatedError("the token is unknown")
        self._valid(found)
        return await self._session(given.id)

    async def redeem(self, code: str) -> str:
        """The cookie of a new session, for a login code.

        Raises:
            UnauthenticatedError: the code is not valid, too old, or was used.
        """
        parts = await self._read("code", code, 5)
        if parts is None:
            raise UnauthenticatedError("the login link is too old or not of this installation")
        now = self._clock.now()
        self._used = {used: end for used, end in self._used.items() if end > now}
        if parts[3] in self._used:
            raise UnauthenticatedError("the login link was used before; each works once")
        self._used[parts[3]] = now + CODE
        self._valid(await self._tokens.find(parts[1]))
        return await self._session(parts[1])

    async def code(self, token: str) -> str:
        """A login code for the token of this id."""
        nonce = secrets.token_hex(8)
        return await self._signed(f"code.{token}.{_seconds(self._clock.now() + CODE)}.{nonce}")

    async def read(self, cookie: str | None) -> SignedIn:
        """Who has this cookie.

        Raises:
            UnauthenticatedError: there is no session, it has ended, or its token has.
            UnavailableError: tokens cannot be read.
        """
        if self._everybody is not None:
            return SignedIn(self._everybody, await self._csrf("open"))
        parts = await self._read("session", cookie or "", 4)
        if parts is None:
            raise UnauthenticatedError("log in to see this page")
        record = self._valid(await self._tokens.find(parts[1])).record
        return SignedIn(Caller(f"token:{record.name}", record.grants), await self._csrf(cookie or ""))

    def _valid(self, found: FoundToken | None) -> FoundToken:
        """Raises:
        UnauthenticatedError: the token has ended.
        """
        if found is None:
            raise UnauthenticatedError("the token is unknown")
        reason = found.record.invalid_at(self._clock.now())
        if reason:
            raise UnauthenticatedError(reason)
        return found

    async def _session(self, token: str) -> str:
        return await self._signed(f"session.{token}.{_seconds(self._clock.now() + SESSION)}")

    async def _read(self, kind: str, text: str, parts: int) -> list[str] | None:
        """The parts of a text with a valid signature that has not ended."""
        found = text.split(".")
        if len(text) > _LONGEST or len(found) != parts or found[0] != kind or not text.isascii():
            return None
        if not hmac.compare_digest(await self._signed(text.rpartition(".")[0]), text):
            return None
        return found if int(found[2]) > _seconds(self._clock.now()) else None

    async def _signed(self, text: str) -> str:
        signature = hmac.digest(await self._signing_key(), f"web\0{text}".encode(), "sha256")
        return f"{text}.{secret_text(signature)}"

    async def _csrf(self, cookie: str) -> str:
        return secret_text(hmac.digest(await self._signing_key(), f"csrf\0{cookie}".encode(), "sha256"))

    async def _signing_key(self) -> bytes:
        if self._key is None:
            self._key = await self._tokens.key()
        return self._key


def _seconds(instant: datetime) -> int:
    return int(instant.astimezone(UTC).timestamp())
