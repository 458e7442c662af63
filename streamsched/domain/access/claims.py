"""Callers of an OpenID provider: which claims a token must have, and the roles that a claim gives (ADR 124)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from streamsched.domain.access.grant import EVERYWHERE, MOST_GRANTS, Caller, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.errors import InvalidError, storable_text
from streamsched.domain.limits import LONGEST_NAME

#: Algorithms that may sign a token. None of them has a key that verifies and signs alike, so a public key of the
#: provider is never taken for a shared secret; `none` is no algorithm.
ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """What a token of the provider must say, and what it gives.

    Attributes:
        issuer: the value of `iss`, exactly.
        audience: one of the values of `aud`.
        name_claim: the claim that names the caller.
        roles_claim: the claim with the provider's roles or groups, a text or a list of texts; dots go into objects.
        grants: what each of these values gives.
        skew: how far the clocks of the provider and of this process may differ.
    """

    issuer: str
    audience: str
    name_claim: str
    roles_claim: str
    grants: Mapping[str, tuple[Grant, ...]]
    skew: timedelta


def caller_of(claims: Mapping[str, Any], rules: ClaimRules, now: datetime) -> Caller | str:
    """The caller of a token whose signature is verified, or why the token is refused."""
    if claims.get("iss") != rules.issuer:
        return f"the token is of another issuer than {rules.issuer}"
    audience = claims.get("aud")
    if rules.audience not in (audience if isinstance(audience, list) else [audience]):
        return f"the token is for another audience than {rules.audience}"
    refused = _at_another_time(claims, rules.skew, now)
    if refused:
        return refused
    name = _at(claims, rules.name_claim)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return f"the token has no claim `{rules.name_claim}` of 1 to {LONGEST_NAME} printable characters"
    roles = _texts(_at(claims, rules.roles_claim))
    grants = [grant for role in dict.fromkeys(roles) for grant in rules.grants.get(role, ())]
    if not grants:
        return f"claim `{rules.roles_claim}` of the token names no role of this installation"
    return Caller(f"oidc:{storable_text(name)}", tuple(grants[:MOST_GRANTS]))


def expiry(claims: Mapping[str, Any]) -> datetime | None:
    """When the token expires; None when it does not say so, or not as a number."""
    return _instant(claims.get("exp"))


def grants_from_text(text: str) -> dict[str, tuple[Grant, ...]]:
    """Reads `value=role` and `value=role@namespace`, comma-separated; a value may occur several times.

    >>> sorted(grants_from_text("ops=operator, sales=developer@sales"))
    ['ops', 'sales']

    Raises:
        InvalidError: a part has another form.
    """
    found: dict[str, tuple[Grant, ...]] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        value, sign, given = part.rpartition("=")
        role, at, namespace = given.partition("@")
        if not value or not sign or role not in set(AccessRole) or (at and not namespace):
            raise InvalidError(
                "$", f"'{part}' must be value=role or value=role@namespace; roles: {', '.join(AccessRole)}"
            )
        grant = Grant(role=AccessRole(role), namespace=namespace or EVERYWHERE)
        found[value] = (*found.get(value, ()), grant)
    return found


def _at_another_time(claims: Mapping[str, Any], skew: timedelta, now: datetime) -> str:
    expires = expiry(claims)
    if expires is None:
        return "the token has no expiry"
    if expires + skew <= now:
        return f"the token expired at {expires.isoformat(timespec='seconds')}"
    for claim in ("nbf", "iat"):
        if claim in claims:
            begins = _instant(claims[claim])
            if begins is None or begins - skew > now:
                return f"the token is not valid yet (`{claim}`)"
    return ""


def _instant(value: object) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _at(claims: Mapping[str, Any], path: str) -> object:
    """A claim; one with dots in its name, such as a URL, is found before the way into objects."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _texts(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
