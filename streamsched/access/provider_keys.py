"""The keys of an OpenID provider: read over HTTP, kept, and read again when a token names an unknown one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, KeySetSerialization

from streamsched.access.provider_http import ProviderHttp
from streamsched.domain.errors import UnavailableError
from streamsched.ports.clock import Clock

log = structlog.get_logger()

#: How long keys are used before they are read again.
FRESH: Final = timedelta(minutes=10)
#: How long keys are used while the provider cannot be reached.
KEPT: Final = timedelta(hours=24)
#: Shortest time between two attempts to read keys: tokens with made-up key ids cause no more.
PAUSE: Final = timedelta(seconds=10)
_MOST_KEYS: Final = 100
#: Kinds of keys that verify and cannot sign.
_ASYMMETRIC: Final = frozenset({"RSA", "EC", "OKP"})


class ProviderKeys:
    """The keys in use, of the address that the provider's discovery document names. Reads are shared by the requests
    that wait for them.
    """

    def __init__(self, http: ProviderHttp, clock: Clock) -> None:
        self._http = http
        self._clock = clock
        self._keys: KeySet | None = None
        self._ids: frozenset[str] = frozenset()
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._failure = ""
        self._reading = asyncio.Lock()

    async def keys(self, key: str | None) -> KeySet:
        """The keys, read again first when they are old or `key`, the id that a token names, is not among them.

        Raises:
            UnavailableError: there are none, because the provider could not be reached for too long.
        """
        if self._is_due(key):
            async with self._reading:
                if self._is_due(key):
                    await self._read()
        now = self._clock.now()
        if self._keys is None or self._read_at is None or now - self._read_at > KEPT:
            raise UnavailableError(self._failure or "the keys of the OpenID provider are not known")
        return self._keys

    def _is_due(self, key: str | None) -> bool:
        now = self._clock.now()
        if self._tried_at is not None and now - self._tried_at < PAUSE:
            return False
        old = self._read_at is None or now - self._read_at >= FRESH
        return old or (key is not None and key not in self._ids)

    async def _read(self) -> None:
        self._tried_at = self._clock.now()
        try:
            address = self._http.address(await self._http.discovery(), "jwks_uri", what="keys")
            found = _verification_keys(await self._http.read(address))
        except UnavailableError as exc:
            self._failure = str(exc)
            log.warning("oidc.keys_unavailable", error=str(exc), kept=self._keys is not None)
            return
        self._keys, self._read_at = found, self._tried_at
        self._ids = frozenset(key.kid for key in found.keys if key.kid is not None)


def _verification_keys(document: Mapping[str, Any]) -> KeySet:
    """The keys of the document that can verify a signature and nothing else. Others, and unreadable ones, are left out.

    Raises:
        UnavailableError: there is no list of keys, or none of that kind.
    """
    listed = document.get("keys")
    usable = []
    for each in listed[:_MOST_KEYS] if isinstance(listed, list) else []:
        if isinstance(each, dict) and each.get("kty") in _ASYMMETRIC and each.get("use", "sig") == "sig":
            one: KeySetSerialization = {"keys": [{name: value for name, value in each.items() if name != "d"}]}  # type: ignore[typeddict-item]
            try:
                usable += KeySet.import_key_set(one).keys
            except (JoseError, ValueError, TypeError, KeyError):
                log.warning("oidc.key_unreadable", kid=str(each.get("kid"))[:200])
    if not usable:
        raise UnavailableError("the OpenID provider publishes no key that verifies signatures")
    return KeySet(usable)
