"""Callers of an OpenID provider: which claims a token must have, and the roles that a claim gives (ADR 30)."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from streamsched.domain.access.grant import EVERYWHERE, MOST_GRANTS, Caller, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.errors import InvalidError, storable_text
from streamsched.domain.json_value import Json
from streamsched.domain.limits import LONGEST_NAME

#: Algorithms that may sign a token. None of them has a key that verifies and signs alike, so a public key of the
#: provider is never taken for a shared secret; `none` is no algorithm.
ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
#: After a role: what it permits besides.
_SHELL: Final = "shell"


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

    def caller(self, name: str, roles: Iterable[str]) -> Caller | None:
        """The caller of this name with what the roles give; None when they give nothing."""
        grants = [grant for role in dict.fromkeys(roles) for grant in self.grants.get(role, ())]
        return Caller(f"oidc:{storable_text(name)}", tuple(grants[:MOST_GRANTS])) if grants else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSecrets:
    """What a login is begun with, each a random text.

    Attributes:
        state: comes back with the code.
        nonce: comes back in the ID token.
        verifier: sent with the code; the provider knows its digest.
    """

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a token names.

    Attributes:
        roles: the provider's roles or groups that give something by the rules.
        expires_at: when the token expires.
    """

    name: str
    roles: tuple[str, ...]
    expires_at: datetime


def caller_of(claims: Mapping[str, Json], rules: ClaimRules, now: datetime) -> Caller | str:
    """The caller of a token whose signature is verified, or why the token is refused."""
    found = identity_of(claims, rules, now)
    if isinstance(found, str):
        return found
    return rules.caller(found.name, found.roles) or _without_role(rules)


def login_of(claims: Mapping[str, Json], rules: ClaimRules, nonce: str, now: datetime) -> Identity | str:
    """Who logs in by an ID token whose signature is verified, or why the token is refused. `rules.audience` is the
    client's id; `nonce` is the value that the login was begun with.
    """
    found = identity_of(claims, rules, now)
    if isinstance(found, str):
        return found
    party, audience = claims.get("azp"), claims.get("aud")
    if (party is not None or (isinstance(audience, list) and len(audience) > 1)) and party != rules.audience:
        return f"the token was issued to another client than {rules.audience}"
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode("utf-8", "replace"), nonce.encode()):
        return "the token is of another login"
    if found.expires_at <= now:
        return f"the token expired at {found.expires_at.isoformat(timespec='seconds')}"
    return found


def identity_of(claims: Mapping[str, Json], rules: ClaimRules, now: datetime) -> Identity | str:
    """Who a token names whose signature is verified, or why the token is refused."""
    if claims.get("iss") != rules.issuer:
        return f"the token is of another issuer than {rules.issuer}"
    audience = claims.get("aud")
    if rules.audience not in (audience if isinstance(audience, list) else [audience]):
        return f"the token is for another audience than {rules.audience}"
    refused = _at_another_time(claims, rules.skew, now)
    if refused:
        return refused
    name = _find_claim(claims, rules.name_claim)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return f"the token has no claim `{rules.name_claim}` of 1 to {LONGEST_NAME} printable characters"
    given = dict.fromkeys(_texts(_find_claim(claims, rules.roles_claim)))
    roles = tuple(role for role in given if role in rules.grants)
    expires = expiry(claims)
    if not roles or expires is None:
        return _without_role(rules)
    return Identity(name=name, roles=roles, expires_at=expires)


def expiry(claims: Mapping[str, Json]) -> datetime | None:
    """When the token expires; None when it does not say so, or not as a number."""
    return _instant(claims.get("exp"))


def grants_from_text(text: str) -> dict[str, tuple[Grant, ...]]:
    """Reads `value=role` and `value=role@namespace`, comma-separated; a value may occur several times. The role
    `developer+shell` has the permission `shell`.

    >>> sorted(grants_from_text("ops=operator, sales=developer+shell@sales"))
    ['ops', 'sales']

    Raises:
        InvalidError: a part has another form.
    """
    found: dict[str, tuple[Grant, ...]] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        value, sign, given = part.rpartition("=")
        named, at, namespace = given.partition("@")
        role, plus, extra = named.partition("+")
        if not value or not sign or role not in set(AccessRole) or (at and not namespace):
            raise InvalidError(
                "$", f"'{part}' must be value=role or value=role@namespace; roles: {', '.join(AccessRole)}"
            )
        if plus and (role, extra) != (AccessRole.DEVELOPER, _SHELL):
            raise InvalidError("$", f"'{part}' may have +{_SHELL} after {AccessRole.DEVELOPER} only")
        grant = Grant(role=AccessRole(role), namespace=namespace or EVERYWHERE, shell=bool(plus))
        found[value] = (*found.get(value, ()), grant)
    return found


def _without_role(rules: ClaimRules) -> str:
    return f"claim `{rules.roles_claim}` of the token names no role of this installation"


def _at_another_time(claims: Mapping[str, Json], skew: timedelta, now: datetime) -> str:
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


def _find_claim(claims: Mapping[str, Json], path: str) -> Json:
    """A claim; one with dots in its name, such as a URL, is found before the way into objects."""
    if path in claims:
        return claims[path]
    found: Json = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _texts(value: Json) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
