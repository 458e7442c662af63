"""Signed tokens of an OpenID provider: their claims, when the signature is one of the provider's keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from streamsched.access.provider_keys import ProviderKeys
from streamsched.domain.errors import UnauthenticatedError

#: The longest token in characters.
LONGEST: Final = 16_000


class ProviderSignatures:
    """Verifies signatures of the listed algorithms."""

    def __init__(self, algorithms: frozenset[str], keys: ProviderKeys) -> None:
        self._algorithms = sorted(algorithms)
        self._keys = keys

    async def claims(self, text: str) -> Mapping[str, Any]:
        """The claims of a token whose signature is right. Nothing else of it is checked.

        Raises:
            UnauthenticatedError: it is not.
            UnavailableError: no key is known.
        """
        header = header_of(text)
        if header is None:
            raise UnauthenticatedError("the token is not a signed one")
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


def header_of(text: str) -> Mapping[str, Any] | None:
    """The header of a signed token in compact form; None when it is none."""
    parts = text.split(".")
    if len(text) > LONGEST or len(parts) != 3 or not text.isascii():
        return None
    try:
        found = jws.extract_compact(text.encode()).headers()
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return found if isinstance(found, dict) else None
