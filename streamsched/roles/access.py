"""Who sends a request: authentication, and the first token, which is made without an API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from streamsched.access.authentication import Authentication, OpenAuthentication, TokenAuthentication
from streamsched.access.issuing import create_token
from streamsched.api.rendering import encode_json
from streamsched.config import Settings
from streamsched.domain.access.claims import ClaimRules
from streamsched.ports.clock import Clock, SystemClock
from streamsched.store.access.tokens import TokenStore
from streamsched.store.connections import Pool, check_sessions, temporary_pool
from streamsched.wire.access import NEW_TOKEN, created_token_view

if TYPE_CHECKING:  # cryptography, only when it is used
    from streamsched.access.code_flow import CodeFlow


def open_authentication(pool: Pool, clock: Clock, settings: Settings) -> tuple[Authentication, CodeFlow | None]:
    """Who sends a request, and how people log in at the OpenID provider; None: not at all."""
    if settings.api.access == "open":
        return OpenAuthentication(), None
    own = TokenAuthentication(TokenStore(pool), clock)
    return _openid(own, clock, settings) if settings.openid.issuer else (own, None)


def _openid(own: Authentication, clock: Clock, settings: Settings) -> tuple[Authentication, CodeFlow | None]:
    """Tokens of the OpenID provider too; and logging in there, with a client id. Both use the same keys."""
    from streamsched.access.code_flow import CodeFlow  # noqa: PLC0415 - cryptography, only when it is used
    from streamsched.access.openid import OpenIdAuthentication  # noqa: PLC0415
    from streamsched.access.provider_http import ProviderHttp  # noqa: PLC0415
    from streamsched.access.provider_keys import ProviderKeys  # noqa: PLC0415
    from streamsched.access.signatures import ProviderSignatures  # noqa: PLC0415

    provider = settings.openid
    rules = ClaimRules(
        issuer=provider.issuer,
        audience=provider.audience,
        name_claim=provider.name_claim,
        roles_claim=provider.roles_claim,
        grants=provider.roles,
        skew=provider.skew,
    )
    http = ProviderHttp(provider.issuer)
    signatures = ProviderSignatures(provider.algorithms, ProviderKeys(http, clock))
    callers = OpenIdAuthentication(rules, signatures, own, clock)
    if not provider.client_id:
        return callers, None
    client = replace(rules, audience=provider.client_id)
    secret, scopes = provider.client_secret, provider.scopes
    return callers, CodeFlow(http, signatures, client, clock, secret=secret, scopes=scopes)


async def create_token_directly(database_url: str, body: dict[str, Any], *, by: str) -> dict[str, Any]:
    """Creates a token in the database: for the first one of an installation. The result is that of `POST /v1/tokens`.

    Raises:
        InvalidError, ConflictError: as the route.
    """
    clock = SystemClock()
    await check_sessions(database_url)
    async with temporary_pool(database_url) as pool:
        record, text = await create_token(TokenStore(pool), clock, NEW_TOKEN.read(body), by=by)
        return orjson.loads(encode_json(created_token_view(record, text, clock.now())))
