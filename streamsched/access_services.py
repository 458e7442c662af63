"""Composition of who may do what: the API's authentication and audit, and the tokens of runs and of `dev`."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from streamsched.access.auditing import NoAudit, StoredAudit
from streamsched.access.authentication import Authentication, OpenAuthentication, TokenAuthentication
from streamsched.access.issuing import create_token
from streamsched.access.quota_watch import QuotaWatch
from streamsched.access.references import ReferenceChecks
from streamsched.api.allowed_hosts import allowed_hosts
from streamsched.api.rendering import encoded
from streamsched.codec.access.grant import token_request_from_json, token_to_json
from streamsched.config import Settings
from streamsched.domain.access.claims import ALGORITHMS, ClaimRules, grants_from_text
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import StoredTokenText, TokenRequest, read_token
from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.ports.clock import Clock, SystemClock
from streamsched.store.access.quotas import QuotaStore
from streamsched.store.access.tokens import TokenStore
from streamsched.store.audit import AuditStore
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore
from streamsched.store.connections import Pool, open_pool
from streamsched.store.runs.run_commits import PostgresRunCommitStore
from streamsched.telemetry.metrics import Metrics

if TYPE_CHECKING:  # cryptography, only when it is used
    from streamsched.access.code_flow import CodeFlow

#: The file in the folder of `streamsched dev` with the token of its commands.
TOKEN_FILE: Final = "token"


def access_services(pool: Pool, clock: Clock, settings: Settings, process: str, metrics: Metrics) -> dict[str, Any]:
    """The members of `ApiServices` that check requests and record changes. `process`: a name that no other has."""
    tokens, entries, quotas = TokenStore(pool), AuditStore(pool), QuotaStore(pool)
    grants = NamespaceGrantStore(pool)
    callers, login = _callers(pool, clock, settings)
    return {
        "allowed_hosts": allowed_hosts(settings),
        "tokens": tokens,
        "authentication": callers,
        "login": login,
        "audit": NoAudit() if settings.api_access == "open" else StoredAudit(entries, clock),
        "audit_entries": entries,
        "quotas": quotas,
        "quota_watch": QuotaWatch(quotas, clock, process, metrics),
        "references": ReferenceChecks(grants, clock),
        "grants": grants,
        "run_commits": PostgresRunCommitStore(pool),
    }


def authentication(pool: Pool, clock: Clock, settings: Settings) -> Authentication:
    """Finds out who sends a request to this installation."""
    return _callers(pool, clock, settings)[0]


def _callers(pool: Pool, clock: Clock, settings: Settings) -> tuple[Authentication, CodeFlow | None]:
    """Who sends a request, and how people log in at the OpenID provider; None: not at all."""
    if settings.api_access == "open":
        return OpenAuthentication(), None
    own = TokenAuthentication(TokenStore(pool), clock)
    return _openid(own, clock, settings) if settings.oidc_issuer else (own, None)


def _openid(own: Authentication, clock: Clock, settings: Settings) -> tuple[Authentication, CodeFlow | None]:
    """Tokens of the OpenID provider too; and logging in there, with a client id. Both use the same keys.

    Raises:
        ConfigurationError: its roles or algorithms cannot be read.
    """
    from streamsched.access.code_flow import CodeFlow  # noqa: PLC0415 - cryptography, only when it is used
    from streamsched.access.openid import OpenIdAuthentication  # noqa: PLC0415
    from streamsched.access.provider_http import ProviderHttp  # noqa: PLC0415
    from streamsched.access.provider_keys import ProviderKeys  # noqa: PLC0415
    from streamsched.access.signatures import ProviderSignatures  # noqa: PLC0415

    algorithms = frozenset(each.strip() for each in settings.oidc_algorithms.split(",") if each.strip())
    if not algorithms or not algorithms <= ALGORITHMS:
        raise ConfigurationError(f"STREAMSCHED_OIDC_ALGORITHMS must be some of {', '.join(sorted(ALGORITHMS))}")
    try:
        grants = grants_from_text(settings.oidc_roles)
    except InvalidError as exc:
        raise ConfigurationError(f"STREAMSCHED_OIDC_ROLES: {exc.reason}") from exc
    rules = ClaimRules(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        name_claim=settings.oidc_name_claim,
        roles_claim=settings.oidc_roles_claim,
        grants=grants,
        skew=settings.oidc_skew,
    )
    http = ProviderHttp(settings.oidc_issuer)
    signatures = ProviderSignatures(algorithms, ProviderKeys(http, clock))
    callers = OpenIdAuthentication(rules, signatures, own, clock)
    if not settings.oidc_client_id:
        return callers, None
    client = replace(rules, audience=settings.oidc_client_id)
    secret, scopes = settings.oidc_client_secret, settings.oidc_scopes
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
        record, text = await create_token(TokenStore(pool), clock, request, by=by)
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
        tokens = TokenStore(pool)
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
