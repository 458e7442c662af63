"""A login at the OpenID provider that has begun: a signed text in a cookie, until the person comes back (ADR 30)."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.access.claims import LoginSecrets
from streamsched.domain.errors import UnauthenticatedError
from streamsched.ports.clock import Clock
from streamsched.web.signed_text import LONGEST_COOKIE, SignedTexts, pack, seconds, unpack

#: How long a person may take at the provider.
ATTEMPT: Final = timedelta(minutes=10)
_MOST_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """Its random texts, and the page that the person wants to see."""

    secrets: LoginSecrets
    wanted: str


class LoginAttempts:
    """Begins and ends logins. Each is accepted once by a process; the provider accepts its code once."""

    def __init__(self, texts: SignedTexts, clock: Clock) -> None:
        self._texts = texts
        self._clock = clock
        self._ended: dict[str, datetime] = {}

    async def begin(self, wanted: str) -> tuple[LoginAttempt, str]:
        """A new login and its cookie. A very long address of `wanted` is replaced by the first page."""
        made = LoginSecrets(
            state=secrets.token_urlsafe(32), nonce=secrets.token_urlsafe(32), verifier=secrets.token_urlsafe(48)
        )
        cookie = await self._cookie(made, wanted)
        if len(cookie) > LONGEST_COOKIE:
            wanted = "/ui/"
            cookie = await self._cookie(made, wanted)
        return LoginAttempt(made, wanted), cookie

    async def end(self, cookie: str | None, state: str) -> LoginAttempt:
        """The login that this browser began and that `state` came back of.

        Raises:
            UnauthenticatedError: there is none, it took too long, is of another browser, or has ended.
        """
        parts = await self._texts.read("attempt", cookie or "", 4)
        if parts is None:
            raise UnauthenticatedError("the login took too long or was begun in another browser; log in again")
        *texts, wanted = unpack(parts[1])
        attempt = LoginAttempt(LoginSecrets(state=texts[0], nonce=texts[1], verifier=texts[2]), wanted)
        if not hmac.compare_digest(state.encode("utf-8", "replace"), attempt.secrets.state.encode()):
            raise UnauthenticatedError("the OpenID provider answers another login than the last one; log in again")
        if attempt.secrets.state in self._ended:
            raise UnauthenticatedError("this login has ended; log in again")
        self._remember(attempt.secrets.state)
        return attempt

    async def _cookie(self, made: LoginSecrets, wanted: str) -> str:
        content = pack([made.state, made.nonce, made.verifier, wanted])
        return await self._texts.sign(f"attempt.{content}.{seconds(self._clock.now() + ATTEMPT)}")

    def _remember(self, state: str) -> None:
        """Until its cookie is too old, or many others have ended since."""
        now = self._clock.now()
        while self._ended:
            oldest = next(iter(self._ended))
            if self._ended[oldest] > now and len(self._ended) < _MOST_KEPT:
                break
            del self._ended[oldest]
        self._ended[state] = now + ATTEMPT
