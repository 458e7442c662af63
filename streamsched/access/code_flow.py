"""Logging in at an OpenID provider (ADR 30): the address to go to, and the exchange of a code for an ID token."""

from __future__ import annotations

import asyncio
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import structlog

from streamsched.access.provider_http import ProviderHttp
from streamsched.access.provider_keys import FRESH
from streamsched.access.signatures import ProviderSignatures
from streamsched.domain.access.claims import ClaimRules, Identity, LoginSecrets, login_of
from streamsched.domain.errors import UnauthenticatedError, UnavailableError
from streamsched.ports.clock import Clock

log = structlog.get_logger()

#: How long a failure to read the discovery document answers the logins that follow.
RETRY: Final = timedelta(seconds=2)
_ERROR: Final = re.compile(r"[a-z_]{1,50}")
_BASIC, _POST = "client_secret_basic", "client_secret_post"


class CodeFlow:
    """The provider's side of a login: the authorization code flow with PKCE (S256). `secret` is empty for a public
    client; it is never shown.
    """

    def __init__(
        self,
        http: ProviderHttp,
        signatures: ProviderSignatures,
        rules: ClaimRules,
        clock: Clock,
        *,
        secret: str,
        scopes: str,
    ) -> None:
        self._http = http
        self._signatures = signatures
        self._rules = rules
        self._clock = clock
        self._secret = secret
        self._scopes = scopes
        self._discovery: Mapping[str, Any] = {}
        self._tried_at: datetime | None = None
        self._failure = ""
        self._reading = asyncio.Lock()

    @property
    def name(self) -> str:
        """The provider's host, for people."""
        return urlsplit(self._rules.issuer).netloc.rpartition("@")[2]

    @property
    def rules(self) -> ClaimRules:
        """What ID tokens must say, and what roles give."""
        return self._rules

    async def address(self, secrets: LoginSecrets, redirect_uri: str) -> str:
        """The URL at which a person logs in, and that leads to `redirect_uri` afterwards.

        Raises:
            UnavailableError: the provider cannot be reached.
        """
        address = self._http.address(
            await self._fresh_discovery(), "authorization_endpoint", what="address at which people log in"
        )
        query = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._scopes.split()),
            "state": secrets.state,
            "nonce": secrets.nonce,
            "code_challenge": _challenge(secrets.verifier),
            "code_challenge_method": "S256",
        }
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"

    async def identity(self, code: str, secrets: LoginSecrets, redirect_uri: str) -> Identity:
        """Who has logged in, by the code that came back. A provider accepts each code once.

        Raises:
            UnauthenticatedError: the provider refuses the code, or the ID token is not valid or gives no role.
            UnavailableError: the provider cannot be reached, or does not accept this installation's client.
        """
        claims = await self._signatures.claims(await self._id_token(code, secrets, redirect_uri))
        found = login_of(claims, self._rules, secrets.nonce, self._clock.now())
        if isinstance(found, str):
            raise UnauthenticatedError(found)
        return found

    async def _id_token(self, code: str, secrets: LoginSecrets, redirect_uri: str) -> str:
        discovery = await self._fresh_discovery()
        address = self._http.address(discovery, "token_endpoint", what="address at which codes are exchanged")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": secrets.verifier,
        }
        credentials = None
        if self._secret and _by_header(discovery):
            credentials = quote_plus(self._client), quote_plus(self._secret)  # RFC 6749, 2.3.1
        elif self._secret:
            form |= {"client_id": self._client, "client_secret": self._secret}
        else:
            form |= {"client_id": self._client}
        answer = await self._http.send(address, form, credentials=credentials)
        if not answer.is_successful:
            raise self._refusal(answer.status, answer.body.get("error"))
        token = answer.body.get("id_token")
        if not isinstance(token, str):
            raise UnavailableError("the OpenID provider answers without an ID token")
        return token

    def _refusal(self, status: int, error: object) -> UnauthenticatedError | UnavailableError:
        known = error if isinstance(error, str) and _ERROR.fullmatch(error) else f"status {status}"
        log.warning("oidc.code_refused", error=known, status=status)
        if known == "invalid_grant":
            return UnauthenticatedError("the OpenID provider does not accept this login any more; log in again")
        return UnavailableError(f"the OpenID provider does not exchange the login for a token: {known}")

    async def _fresh_discovery(self) -> Mapping[str, Any]:
        """The discovery document, read again after `FRESH`. Requests that wait share a read, and its failure."""
        if self._is_due():
            async with self._reading:
                if self._is_due():
                    await self._discover()
        if self._failure:
            raise UnavailableError(self._failure)
        return self._discovery

    async def _discover(self) -> None:
        try:
            self._discovery, self._failure = await self._http.discovery(), ""
        except UnavailableError as exc:
            self._failure = str(exc)
            log.warning("oidc.discovery_unavailable", error=self._failure)
        self._tried_at = self._clock.now()

    def _is_due(self) -> bool:
        pause = RETRY if self._failure else FRESH
        return self._tried_at is None or self._clock.now() - self._tried_at >= pause

    @property
    def _client(self) -> str:
        return self._rules.audience


def _by_header(discovery: Mapping[str, Any]) -> bool:
    """Whether the client's secret is sent in a header, as providers do that name no method."""
    methods = discovery.get("token_endpoint_auth_methods_supported")
    return not isinstance(methods, list) or _BASIC in methods or _POST not in methods


def _challenge(verifier: str) -> str:
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
