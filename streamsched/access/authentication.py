"""Who sends a request: the caller of a bearer token (ADR 30)."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol, assert_never

from streamsched.domain.access.grant import OF_RUN, Caller, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import RunTokenText, StoredTokenText, read_token
from streamsched.domain.errors import UnauthenticatedError
from streamsched.ports.clock import Clock
from streamsched.store.access.tokens import TokenStore

#: How long a verdict about a token is reused: a revoked token is refused after at most so long.
REUSE: Final = timedelta(milliseconds=500)
#: Most tokens whose verdicts are kept; when there are more, all are forgotten.
_KEPT: Final = 4096
_SCHEME: Final = "bearer"

#: The caller of an installation that is open to everybody who reaches it.
ANYBODY: Final = Caller("anybody", (Grant(role=AccessRole.ADMIN),))
#: Who started `streamsched dev`: all of it is that person's, as for a caller with the token in its folder.
PERSON_OF_DEV: Final = Caller("the person of dev", (Grant(role=AccessRole.ADMIN),))


class Authentication(Protocol):
    """Finds out who sends a request."""

    async def caller(self, authorization: str | None) -> Caller:
        """The caller of a request with this `Authorization` header.

        Raises:
            UnauthenticatedError: it has no token, or one that is not valid.
            UnavailableError: tokens cannot be read.
        """
        ...


class OpenAuthentication:
    """Every request is allowed everything: for loopback on a machine of one person, and for tests."""

    async def caller(self, authorization: str | None) -> Caller:
        """The same caller for every request, with all permissions."""
        del authorization
        return ANYBODY


@dataclass(frozen=True, slots=True)
class _Known:
    """A verdict on a token: a caller, or why it is refused. It holds until `until`."""

    caller: Caller | None
    reason: str
    until: datetime


class TokenAuthentication:
    """Requests need a token of the installation: a stored one, or one of an active run."""

    def __init__(self, store: TokenStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._judging: dict[str, asyncio.Task[_Known]] = {}
        self._key: bytes | None = None

    async def caller(self, authorization: str | None) -> Caller:
        """The caller of the token. UnauthenticatedError: there is none, or it is not accepted."""
        text = bearer_token(authorization)
        known = self._known.get(text)
        if known is None or known.until <= self._clock.now():
            known = await self._fetch_verdict(text)
        if known.caller is None:
            raise UnauthenticatedError(known.reason)
        return known.caller

    async def _fetch_verdict(self, text: str) -> _Known:
        """A new verdict. Requests that come meanwhile wait for the same one."""
        judging = self._judging.get(text)
        if judging is None:
            judging = self._judging[text] = asyncio.create_task(self._judge(text, self._clock.now()))
            judging.add_done_callback(partial(self._keep, text))
        return await asyncio.shield(judging)

    def _keep(self, text: str, judged: asyncio.Task[_Known]) -> None:
        del self._judging[text]
        if judged.cancelled() or judged.exception() is not None:  # raised by the requests that wait
            return
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[text] = judged.result()

    async def _judge(self, text: str, now: datetime) -> _Known:
        found = read_token(text)
        match found:
            case None:
                verdict = "the bearer token is not a token of streamsched"
            case StoredTokenText():
                verdict = await self._read_stored(found, now)
            case RunTokenText():
                verdict = await self._of_run(found)
            case _:
                assert_never(found)
        if isinstance(verdict, Caller):
            return _Known(verdict, "", now + REUSE)
        return _Known(None, verdict, now + REUSE)

    async def _read_stored(self, text: StoredTokenText, now: datetime) -> Caller | str:
        found = await self._store.find(text.id)
        if found is None or not hmac.compare_digest(found.digest, text.digest):
            return "the token is unknown"
        reason = found.record.refusal_reason(now)
        if reason:
            return reason
        await self._store.record_use(text.id, now=now)
        return Caller(f"token:{found.record.name}", found.record.grants)

    async def _of_run(self, text: RunTokenText) -> Caller | str:
        if not text.is_signed_by(await self._signing_key()):
            return "the token is unknown"
        if not await self._store.is_run_active(text.run):
            return f"the run {text.run} has ended, and its token with it"
        return caller_of_run(text.run, text.run.partition(".")[0])

    async def _signing_key(self) -> bytes:
        if self._key is None:
            self._key = await self._store.key()
        return self._key


def caller_of_run(run: str, namespace: str) -> Caller:
    """A run as a caller: it may announce what is in the namespace of its program, and read it."""
    roles = (AccessRole.EMITTER, AccessRole.VIEWER)
    return Caller(f"{OF_RUN}{run}", tuple(Grant(role=role, namespace=namespace) for role in roles))


def bearer_token(authorization: str | None) -> str:
    """The token of the header.

    Raises:
        UnauthenticatedError: there is none.
    """
    if not authorization:
        raise UnauthenticatedError(
            "the request has no token; send the header 'Authorization: Bearer TOKEN' (commands read STREAMSCHED_TOKEN)"
        )
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != _SCHEME or not token.strip():
        raise UnauthenticatedError("the header Authorization must be 'Bearer TOKEN'")
    return token.strip()
