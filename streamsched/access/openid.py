"""Callers with a bearer token of an OpenID provider (ADR 30). Other tokens go on to the installation's own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from streamsched.access.authentication import Authentication, bearer_token
from streamsched.access.signatures import ProviderSignatures, header_of
from streamsched.domain.access.claims import ClaimRules, caller_of, expiry
from streamsched.domain.access.grant import Caller
from streamsched.domain.errors import UnauthenticatedError
from streamsched.ports.clock import Clock

#: How long a verified token is not verified again.
_REUSE: Final = timedelta(seconds=5)
_KEPT: Final = 4096


class OpenIdAuthentication:
    """Verifies tokens of the provider; `own` finds out the callers of all other tokens."""

    def __init__(self, rules: ClaimRules, signatures: ProviderSignatures, own: Authentication, clock: Clock) -> None:
        self._rules = rules
        self._signatures = signatures
        self._own = own
        self._clock = clock
        self._known: dict[str, tuple[Caller, datetime]] = {}

    async def caller(self, authorization: str | None) -> Caller:
        """As `Authentication.caller`. UnavailableError also when the provider's keys are not known."""
        if not authorization or authorization.count(".") < 2:
            return await self._own.caller(authorization)
        text = bearer_token(authorization)
        if header_of(text) is None:
            return await self._own.caller(authorization)
        now = self._clock.now()
        known = self._known.get(text)
        if known is not None and now < known[1]:
            return known[0]
        claims = await self._signatures.claims(text)
        found = caller_of(claims, self._rules, now)
        if isinstance(found, str):
            raise UnauthenticatedError(found)
        if len(self._known) >= _KEPT:
            self._known.clear()
        until, ends = now + _REUSE, expiry(claims)
        self._known[text] = found, until if ends is None else min(until, max(now, ends + self._rules.skew))
        return found
