"""Callers with a bearer token of an OpenID provider (ADR 124). Other tokens go on to the installation's own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from streamsched.access.authentication import Authentication, bearer_token
from streamsched.access.provider_keys import ProviderKeys
from streamsched.domain.access.claims import ClaimRules, caller_of, expiry
from streamsched.domain.access.grant import Caller
from streamsched.domain.errors import UnauthenticatedError
from streamsched.ports.clock import Clock

#: The longest token in characters.
LONGEST: Final = 16_000
#: How long a verified token is not verified again.
_REUSE: Final = timedelta(seconds=5)
_KEPT: Final = 4096


class OpenIdAuthentication:
    """Verifies tokens of the provider; `own` finds out the callers of all other tokens."""

    def __init__(
        self, rules: ClaimRules, algorithms: frozenset[str], keys: ProviderKeys, own: Authentication, clock: Clock
    ) -> None:
        self._rules = rules
        self._algorithms = sorted(algorithms)
        self._keys = keys
        self._own = own
        self._clock = clock
        self._known: dict[str, tuple[Caller, datetime]] = {}

    async def caller(self, authorization: str | None) -> Caller:
        """As `Authentication.caller`. UnavailableError also when the provider's keys are not known."""
        if not authorization or authorization.count(".") < 2:
            return await self._own.caller(authorization)
        text = bearer_token(authorization)
        header = _header(text)
        if header is None:
            return await self._own.caller(authorization)
        now = self._clock.now()
        known = self._known.get(text)
        if known is not None and now < known[1]:
            return known[0]
        claims = await self._verified(text, header)
        found = caller_of(claims, self._rules, now)
        if isinstance(found, str):
            raise UnauthenticatedError(found)
        if len(self._known) >= _KEPT:
            self._known.clear()
        until, ends = now + _REUSE, expiry(claims)
        self._known[text] = found, until if ends is None else min(until, max(now, ends + self._rules.skew))
        return found

    async def _verified(self, text: str, header: Mapping[str, Any]) -> Mapping[str, Any]:
        """The claims of a token whose signature is right.

        Raises:
            UnauthenticatedError: it is not.
            UnavailableError: no key is known.
        """
        if header.get("alg") not in self._algorithms:
            raise UnauthenticatedError(f"the token must be signed by one of {', '.join(self._algorithms)}")
        key = header.get("kid")
        if key is not None and not isinstance(key, str):
            raise UnauthenticatedError("the token's key id is not a text")
        keys = await self._keys.keys(key)
        try:
            payload = _payload(text, key, keys, self._algorithms)
            claims = orjson.loads(payload)
        except (JoseError, ValueError, TypeError, KeyError) as exc:
            raise UnauthenticatedError("the token's signature is not one of the provider's keys") from exc
        if not isinstance(claims, dict):
            raise UnauthenticatedError("the token has no claims")
        return claims


def _payload(text: str, key: str | None, keys: KeySet, algorithms: list[str]) -> bytes:
    """Raises:
    JoseError, ValueError: no key verifies the signature.
    """
    candidates = [each for each in keys.keys if key is None or each.kid == key]
    if not candidates:
        raise ValueError("unknown key")
    failure: Exception | None = None
    for each in candidates:
        try:
            return jws.deserialize_compact(text, each, algorithms=algorithms).payload
        except (JoseError, ValueError, TypeError) as exc:
            failure = exc
    assert failure is not None
    raise failure


def _header(text: str) -> Mapping[str, Any] | None:
    """The header of a signed token in compact form; None when it is none."""
    parts = text.split(".")
    if len(text) > LONGEST or len(parts) != 3 or not text.isascii():
        return None
    try:
        found = jws.extract_compact(text.encode()).headers()
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return found if isinstance(found, dict) else None
