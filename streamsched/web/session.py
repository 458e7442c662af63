"""Sessions of people in browsers. A session begins with an API token, a login code or a login at the OpenID provider,
and is a signed text in a cookie. No process stores it, so every API process accepts it.

| text | of |
|---|---|
| `session.<token id>.<end>.<signature>` | the cookie of a token; it ends early with the token |
| `code.<token id>.<end>.<nonce>.<signature>` | a login link of `streamsched dev` |
| `person.<issuer, name and roles>.<end>.<signature>` | the cookie of a person of the provider; ends with the ID token |

A code is accepted once by a process. The roles of a person are those at login; what they give is read from the settings
each time.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from streamsched.domain.access.claims import ClaimRules, Identity
from streamsched.domain.access.grant import Caller
from streamsched.domain.access.token import StoredTokenText, read_token, secret_text
from streamsched.domain.errors import UnauthenticatedError
from streamsched.ports.clock import Clock
from streamsched.store.access.tokens import FoundToken, TokenStore
from streamsched.web.signed_text import LONGEST_COOKIE, SignedTexts, pack, seconds, unpack

#: How long a session lasts, and how long a login code may be used.
SESSION: Final = timedelta(hours=12)
CODE: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who uses the pages, and the token that the forms of this session carry."""

    caller: Caller
    csrf: str


class Sessions:
    """Begins and reads sessions.

    `everybody`: the caller of an installation that needs no tokens. `rules`: what roles of the OpenID provider give;
    None: there are no logins at a provider.
    """

    def __init__(
        self, tokens: TokenStore, clock: Clock, *, everybody: Caller | None = None, rules: ClaimRules | None = None
    ) -> None:
        self._tokens = tokens
        self._clock = clock
        self._everybody = everybody
        self._rules = rules
        self._texts = SignedTexts(tokens, clock)
        self._used: dict[str, datetime] = {}

    @property
    def are_needed(self) -> bool:
        """Whether pages need a session."""
        return self._everybody is None

    @property
    def texts(self) -> SignedTexts:
        """What sessions are signed with."""
        return self._texts

    async def cookie_name(self) -> str:
        """Differs between installations: browsers share the cookies of all ports of a host."""
        return f"streamsched_{sha256(b'cookie' + await self._texts.key()).hexdigest()[:8]}"

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
        self._check_token(found)
        return await self._session(given.id)

    async def begin_person(self, person: Identity) -> tuple[str, datetime]:
        """The cookie of a new session of a person of the provider, and its end: that of the ID token, at most `SESSION`
        from now.

        Raises:
            UnauthenticatedError: there are no such logins, or there are too many roles for a cookie.
        """
        if self._rules is None:
            raise UnauthenticatedError("there is no login at an OpenID provider")
        ends = min(person.expires_at, self._clock.now() + SESSION)
        content = pack([self._rules.issuer, person.name, list(person.roles)])
        cookie = await self._texts.sign(f"person.{content}.{seconds(ends)}")
        if len(cookie) > LONGEST_COOKIE:
            raise UnauthenticatedError("your roles at the OpenID provider are too many for a session")
        return cookie, ends

    async def redeem(self, code: str) -> str:
        """The cookie of a new session, for a login code.

        Raises:
            UnauthenticatedError: the code is not valid, too old, or was used.
        """
        parts = await self._texts.read("code", code, 5)
        if parts is None:
            raise UnauthenticatedError("the login link is too old or not of this installation")
        now = self._clock.now()
        self._used = {used: end for used, end in self._used.items() if end > now}
        if parts[3] in self._used:
            raise UnauthenticatedError("the login link was used before; each works once")
        self._used[parts[3]] = now + CODE
        self._check_token(await self._tokens.find(parts[1]))
        return await self._session(parts[1])

    async def code(self, token: str) -> str:
        """A login code for the token of this id."""
        nonce = secrets.token_hex(8)
        return await self._texts.sign(f"code.{token}.{seconds(self._clock.now() + CODE)}.{nonce}")

    async def read(self, cookie: str | None) -> SignedIn:
        """Who has this cookie.

        Raises:
            UnauthenticatedError: there is no session, it has ended, or its token has.
            UnavailableError: tokens cannot be read.
        """
        if self._everybody is not None:
            return SignedIn(self._everybody, await self._csrf("open"))
        if cookie is not None and cookie.startswith("person."):
            return SignedIn(await self._person(cookie), await self._csrf(cookie))
        parts = await self._texts.read("session", cookie or "", 4)
        if parts is None:
            raise UnauthenticatedError("log in to see this page")
        record = self._check_token(await self._tokens.find(parts[1])).record
        return SignedIn(Caller(f"token:{record.name}", record.grants), await self._csrf(cookie or ""))

    def _check_token(self, found: FoundToken | None) -> FoundToken:
        """Raises:
        UnauthenticatedError: the token has ended.
        """
        if found is None:
            raise UnauthenticatedError("the token is unknown")
        reason = found.record.refusal_reason(self._clock.now())
        if reason:
            raise UnauthenticatedError(reason)
        return found

    async def _person(self, cookie: str) -> Caller:
        """Raises:
        UnauthenticatedError: there is no session, it has ended, or its roles give nothing any more.
        """
        parts = await self._texts.read("person", cookie, 4)
        if parts is None or self._rules is None:
            raise UnauthenticatedError("log in to see this page")
        issuer, name, roles = unpack(parts[1])
        caller = self._rules.caller(name, roles) if issuer == self._rules.issuer else None
        if caller is None:
            raise UnauthenticatedError("the roles of this session give nothing any more")
        return caller

    async def _session(self, token: str) -> str:
        return await self._texts.sign(f"session.{token}.{seconds(self._clock.now() + SESSION)}")

    async def _csrf(self, cookie: str) -> str:
        return secret_text(hmac.digest(await self._texts.key(), f"csrf\0{cookie}".encode(), "sha256"))
