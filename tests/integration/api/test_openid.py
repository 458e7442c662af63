"""Bearer tokens of an OpenID provider: a real provider with keys on a port of this machine."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from streamsched.access.provider_keys import FRESH, KEPT, PAUSE
from streamsched.config import Settings
from streamsched.domain.errors import ConfigurationError
from streamsched.roles.access import open_authentication
from streamsched.roles.services import Services, open_services
from streamsched.testing.clock import SettableClock
from tests.support.openid_provider import NOW, Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


def settings_for(database: str, provider: Provider, **others: Any) -> Settings:
    given = {
        "oidc_issuer": provider.url,
        "oidc_audience": "streamsched",
        "oidc_roles": "ops=operator, sales=developer@sales",
        "oidc_roles_claim": "groups",
    }
    return Settings.from_env({}, database_url=database, **{**given, **others})


@pytest.fixture
async def services(database: str, clock: SettableClock, provider: Provider) -> AsyncIterator[Services]:
    async with open_services(settings_for(database, provider), clock=clock) as services:
        yield services


async def asked(client: httpx.AsyncClient, header: dict[str, str]) -> tuple[int, str]:
    answer = await client.get("/v1/caller", headers=header)
    return answer.status_code, answer.json().get("detail") or answer.json()["name"]


async def test_a_token_of_the_provider_has_the_roles_of_its_groups(
    client: httpx.AsyncClient, provider: Provider
) -> None:
    key = provider.add("a")
    assert await asked(client, provider.token(key)) == (200, "oidc:ada")
    found = (await client.get("/v1/caller", headers=provider.token(key, groups=["sales", "x"], sub="bo"))).json()
    assert found == {"name": "oidc:bo", "grants": [{"role": "developer", "namespace": "sales"}]}
    sales = provider.token(key, groups="sales")
    assert (await client.get("/v1/schedules?namespace=sales", headers=sales)).status_code == 200
    assert (await client.get("/v1/schedules?namespace=ops", headers=sales)).status_code == 403
    for other in (ECKey.generate_key("P-256", {"kid": "e"}), OKPKey.generate_key("Ed25519", {"kid": "o"})):
        provider.keys.append(other)
    assert (await asked(client, provider.token(key)))[0] == 200


_OTHER_CLAIMS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"exp": (NOW - timedelta(seconds=31)).timestamp()}, "expired at 2026-03-01T05:59:29"),
    ({"exp": None}, "no expiry"),
    ({"exp": "tomorrow"}, "no expiry"),
    ({"exp": 1e300}, "no expiry"),
    ({"nbf": (NOW + timedelta(seconds=31)).timestamp()}, "not valid yet (`nbf`)"),
    ({"iat": (NOW + timedelta(hours=1)).timestamp()}, "not valid yet (`iat`)"),
    ({"aud": "other"}, "another audience"),
    ({"aud": ["other"]}, "another audience"),
    ({"aud": None}, "another audience"),
    ({"iss": "https://evil.example"}, "another issuer"),
    ({"sub": None}, "no claim `sub`"),
    ({"sub": "a\nb"}, "no claim `sub`"),
    ({"groups": []}, "names no role"),
    ({"groups": {"ops": True}}, "names no role"),
]


async def test_a_token_that_says_something_else_is_refused(client: httpx.AsyncClient, provider: Provider) -> None:
    key = provider.add("a")
    for claims, why in _OTHER_CLAIMS:
        status, detail = await asked(client, provider.token(key, **claims))
        assert (status, why in detail) == (401, True), detail


async def test_clocks_may_differ_by_the_skew(client: httpx.AsyncClient, provider: Provider) -> None:
    key = provider.add("a")
    late = provider.token(key, exp=(NOW - timedelta(seconds=29)).timestamp())
    early = provider.token(key, nbf=(NOW + timedelta(seconds=29)).timestamp())
    assert [(await asked(client, header))[0] for header in (late, early)] == [200, 200]


async def test_algorithms_that_share_a_secret_or_sign_nothing_are_refused(
    client: httpx.AsyncClient, provider: Provider
) -> None:
    key = provider.add("a")
    good = provider.token(key)["Authorization"].removeprefix("Bearer ")
    payload = good.split(".")[1]
    unsigned = f"eyJhbGciOiJub25lIiwia2lkIjoiYSJ9.{payload}."
    changed = f"{good.rsplit('.', 1)[0]}.{'A' * 342}"
    shared = signed_by_secret(good, key.as_pem(private=False))
    other = RSAKey.generate_key(2048, {"kid": "a"})
    for header in (
        {"Authorization": f"Bearer {shared}"},
        provider.token(key, alg="PS256"),
        {"Authorization": f"Bearer {unsigned}"},
        {"Authorization": f"Bearer {changed}"},
        provider.token(other),
        {"Authorization": "Bearer a.b.c"},
        {"Authorization": f"Bearer {good}.x"},
        {"Authorization": f"Bearer {good}{'A' * 20_000}"},
    ):
        assert (await asked(client, header))[0] == 401, header
    assert (await asked(client, provider.token(key)))[0] == 200


def signed_by_secret(token: str, secret: bytes) -> str:
    """The token with a signature of HS256 whose secret is the provider's public key."""
    header = urlsafe_b64encode(b'{"alg":"HS256","kid":"a"}').rstrip(b"=").decode()
    content = f"{header}.{token.split('.')[1]}"
    return f"{content}.{urlsafe_b64encode(hmac.digest(secret, content.encode(), 'sha256')).rstrip(b'=').decode()}"


async def test_rotated_keys_are_found_and_removed_ones_are_forgotten(
    client: httpx.AsyncClient, provider: Provider, clock: SettableClock
) -> None:
    old = provider.add("old")
    assert (await asked(client, provider.token(old)))[0] == 200
    provider.keys.clear()
    new = provider.add("new")
    clock.advance(PAUSE)
    assert (await asked(client, provider.token(new, now=clock.now())))[0] == 200
    assert (await asked(client, provider.token(old, sub="x")))[0] == 401
    reads = provider.reads
    stranger = RSAKey.generate_key(2048)
    for number in range(50):
        forged = RSAKey.import_key({**stranger.as_dict(private=True), "kid": f"made-up-{number}"})
        assert (await asked(client, provider.token(forged)))[0] == 401
    assert provider.reads == reads, "made-up key ids are no reason to ask the provider again and again"


async def test_kept_keys_are_used_while_the_provider_is_down_and_then_no_more(
    client: httpx.AsyncClient, provider: Provider, clock: SettableClock
) -> None:
    key = provider.add("a")
    provider.down = True
    status, detail = await asked(client, provider.token(key))
    assert (status, provider.url in detail) == (503, True)
    provider.down = False
    clock.advance(PAUSE)
    assert (await asked(client, provider.token(key)))[0] == 200
    provider.down = True
    clock.advance(FRESH)
    header = provider.token(key, now=clock.now(), exp=(NOW + timedelta(days=9)).timestamp())
    assert (await asked(client, header))[0] == 200
    clock.advance(KEPT)
    assert (await asked(client, header))[0] == 503
    own = await client.get("/v1/caller", headers={"Authorization": "Bearer sst_" + "0" * 12 + "_" + "A" * 43})
    assert own.status_code == 401


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"oidc_issuer": "http://example.org"}, "OIDC_ISSUER"),
        ({"oidc_audience": ""}, "OIDC_AUDIENCE"),
        ({"oidc_roles": "ops=king"}, "OIDC_ROLES"),
        ({"oidc_algorithms": "HS256"}, "OIDC_ALGORITHMS"),
        ({"oidc_algorithms": "none"}, "OIDC_ALGORITHMS"),
        ({"oidc_client_id": "pages", "oidc_issuer": ""}, "OIDC_CLIENT_ID"),
        ({"oidc_scopes": "profile email"}, "OIDC_SCOPES"),
    ],
)
async def test_wrong_settings_are_refused_at_the_start(
    services: Services, database: str, provider: Provider, wrong: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        open_authentication(services.pool, services.clock, settings_for(database, provider, **wrong))
