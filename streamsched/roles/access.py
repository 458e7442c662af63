"""Who may do what: authentication, and the tokens that are made without an API."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from streamsched.access.authentication import Authentication, OpenAuthentication, TokenAuthentication
from streamsched.access.issuing import create_token
from streamsched.api.rendering import encoded
from streamsched.codec.access.grant import token_request_from_json, token_to_json
from streamsched.config import Settings
from streamsched.domain.access.claims import ClaimRules
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import StoredTokenText, TokenRequest, read_token
from streamsched.ports.access.login import ProviderLogin
from streamsched.ports.clock import Clock, SystemClock
from streamsched.store.access.tokens import PostgresTokenStore
from streamsched.store.connections import Pool, open_pool
from streamsched.web.app import PREFIX
from streamsched.web.session import Sessions

#: The file in the folder of `streamsched dev` with the token of its commands.
TOKEN_FILE: Final = "token"


def authentication(pool: Pool, clock: Clock, settings: Settings) -> Authentication:
    """Finds out who sends a request to this installation."""
    return open_authentication(pool, clock, settings)[0]


def open_authentication(pool: Pool, clock: Clock, settings: Settings) -> tuple[Authentication, ProviderLogin | None]:
    """Who sends a request, and how people log in at the OpenID provider; None: not at all."""
    if settings.api.access == "open":
        return OpenAuthentication(), None
    own = TokenAuthentication(PostgresTokenStore(pool), clock)
    return _openid(own, clock, settings) if settings.openid.issuer else (own, None)


def _openid(own: Authentication, clock: Clock, settings: Settings) -> tuple[Authentication, ProviderLogin | None]:
    """Tokens of the OpenID provider too; and logging in there, with a client id. Both use the same keys."""
    from streamsched.access.code_flow import CodeFlow  # noqa: PLC0415 - cryptography, only when it is used
    from streamsched.access.openid import OpenIdAuthentication  # noqa: PLC0415
    from streamsched.access.provider_http import ProviderHttp  # noqa: PLC0415
    from streamsched.access.provider_keys import HttpKeyDocuments, ProviderKeys  # noqa: PLC0415
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
    signatures = ProviderSignatures(provider.algorithms, ProviderKeys(HttpKeyDocuments(http), clock))
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
    pool = await open_pool(database_url, max_size=1)
    try:
        request = token_request_from_json(body)
        record, text = await create_token(PostgresTokenStore(pool), clock, request, by=by)
        return orjson.loads(encoded({**token_to_json(record, clock.now()), "text": text}))
    finally:
        pool.terminate()


async def ensure_dev_token(database_url: str, folder: Path) -> None:
    """Writes a token of an admin into the folder of `streamsched dev`, readable by its owner only, unless the one that
    is there is valid.
    """
    file = folder / TOKEN_FILE
    clock = SystemClock()
    pool = await open_pool(database_url, max_size=1)
    try:
        tokens = PostgresTokenStore(pool)
        known = read_token(file.read_text().strip()) if file.is_file() else None
        if isinstance(known, StoredTokenText):
            found = await tokens.find(known.id)
            if found is not None and found.digest == known.digest and not found.record.invalid_at(clock.now()):
                return
        name = f"dev-{secrets.token_hex(3)}"
        request = TokenRequest(name, (Grant(role=AccessRole.ADMIN),))
        _, text = await create_token(tokens, clock, request, by="streamsched dev")
        unfinished = file.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        unfinished.touch(mode=0o600)
        unfinished.write_text(text + "\n")
        unfinished.replace(file)
    finally:
        pool.terminate()


async def login_path(database_url: str, token: str) -> str:
    """The path and query of a login link for the owner of this token; without a code when it is no stored token."""
    known = read_token(token)
    if not isinstance(known, StoredTokenText):
        return f"{PREFIX}/"
    pool = await open_pool(database_url, max_size=1)
    try:
        code = await Sessions(PostgresTokenStore(pool), SystemClock()).code(known.id)
        return f"{PREFIX}/login?code={code}"
    finally:
        pool.terminate()
