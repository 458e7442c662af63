"""Profiles and bundles over HTTP: administration, use by programs, removal."""

from __future__ import annotations

import hashlib
import io
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.process.bundle_archive import folder_files, pack
from streamsched.roles.services import Services
from streamsched.spark.needs.bundle_cache import BundleCache
from streamsched.store.programs.bundles import BundleStore
from streamsched.store.programs.profiles import ProfileStore
from tests.support.world import StoredWorld

PROFILE = {"conf": {"spark.a": "1", "spark.b": {"secret": "env:B"}}, "executors": {"cores": 2}}
TAR = {"content-type": "application/x-tar"}


def app(**fields: object) -> dict[str, Any]:
    return {"programs": [{"name": "join", "type": "spark", "main": "join.py", **fields}]}


async def test_a_profile_is_set_listed_used_and_deleted(client: httpx.AsyncClient) -> None:
    path = "/v1/namespaces/default/spark-profiles"
    refused = await client.put("/v1/apps/default/shop", json=app(profile="big"))
    assert refused.status_code == 400
    assert refused.json()["path"] == "$.programs[0].profile"

    made = await client.put(f"{path}/big", json={**PROFILE, "reason": "first"})
    assert made.status_code == 200, made.text
    assert {name: made.json()[name] for name in PROFILE} == PROFILE
    unfit = await client.put("/v1/apps/default/shop", json=app(profile="big", deploy_mode="cluster"))
    assert unfit.status_code == 400
    assert unfit.json()["path"] == "$.programs[0].profile"
    assert (await client.put("/v1/apps/default/shop", json=app(profile="big"))).status_code == 200

    everywhere = await client.put("/v1/namespaces/*/spark-profiles/other", json={"master": "local"})
    assert everywhere.status_code == 200, everywhere.text
    names = [(each["namespace"], each["name"]) for each in (await client.get(path)).json()["profiles"]]
    assert names == [("default", "big"), ("*", "other")]

    used = await client.delete(f"{path}/big")
    assert used.status_code == 409
    assert "default.shop.join" in used.json()["detail"]
    assert (await client.get(f"{path}/big")).json()["users"] == ["default.shop.join"]
    assert (await client.delete(f"{path}/big", params={"force": True})).status_code == 200
    assert (await client.get(f"{path}/big")).status_code == 404
    assert (await client.delete(f"{path}/big")).status_code == 404


async def test_a_namespaces_own_profile_precedes_the_installations(
    client: httpx.AsyncClient, services: Services
) -> None:
    for namespace, value in (("*", "all"), ("default", "own")):
        await client.put(f"/v1/namespaces/{namespace}/spark-profiles/p", json={"conf": {"spark.a": value}})
    store = ProfileStore(services.pool)

    own, other = await store.find("default", "p"), await store.find("other", "p")
    assert own is not None
    assert other is not None
    assert (own.profile.conf["spark.a"], other.profile.conf["spark.a"]) == ("own", "all")
    assert await store.find("default", "q") is None

    assert (await client.put("/v1/apps/default/shop", json=app(profile="p"))).status_code == 200
    assert (await client.get("/v1/namespaces/*/spark-profiles/p")).json()["users"] == []
    gone = await client.delete("/v1/namespaces/default/spark-profiles/p")
    assert gone.status_code == 200  # its programs get the installation's
    assert (await client.get("/v1/namespaces/*/spark-profiles/p")).json()["users"] == ["default.shop.join"]
    assert (await client.delete("/v1/namespaces/*/spark-profiles/p")).status_code == 409


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"conf": {"a": 1}}, "$.conf.a"),
        ({"driver": {"memory": "2"}}, "$.driver.memory"),
        ({"conf": {"spark.a\u0000": "x"}}, "$.conf"),
        ({"jars": []}, "$.jars"),
    ],
)
async def test_a_wrong_profile_names_its_field(client: httpx.AsyncClient, body: dict[str, Any], path: str) -> None:
    answer = await client.put("/v1/namespaces/default/spark-profiles/p", json=body)

    assert answer.status_code == 400, answer.text
    assert answer.json()["path"].startswith(path)


def archive(folder: Path) -> tuple[str, bytes]:
    raw = io.BytesIO()
    digest = pack(folder, folder_files(folder, most_bytes=10**7), raw)
    return digest, raw.getvalue()


async def test_a_bundle_is_stored_once_fetched_by_its_digest_and_removed_when_unused(
    client: httpx.AsyncClient, services: Services, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "join.py").write_text("print(1)\n")
    (code / "data.bin").write_bytes(bytes(range(256)) * 12_000)
    digest, content = archive(code)
    path = f"/v1/namespaces/default/bundles/{digest}"

    refused = await client.put("/v1/apps/default/shop", json=app(bundle=digest))
    assert (refused.status_code, refused.json()["path"]) == (400, "$.programs[0].bundle")
    asked = (await client.post(f"{path}/use")).json()
    assert (asked["exists"], asked["limit"]) == (False, 64 * 1024 * 1024)
    new = await client.put(path, content=content, headers=TAR)
    assert new.status_code == 200, new.text
    assert (new.json()["new"], new.json()["files"]) == (True, 2)
    assert (await client.put(path, content=content, headers=TAR)).json()["new"] is False
    assert (await client.post(f"{path}/use")).json()["exists"] is True
    assert (await client.put("/v1/apps/default/shop", json=app(bundle=digest))).status_code == 200
    assert (await client.put("/v1/apps/other/shop", json=app(bundle=digest))).status_code == 400

    store = BundleStore(services.pool)
    cache = BundleCache(store, tmp_path / "cache", most_bytes=10**8)
    folder = await cache.folder("default", digest)
    assert (folder / "data.bin").read_bytes() == (code / "data.bin").read_bytes()
    assert await cache.folder("default", digest) == folder
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [digest]

    later = datetime.now(UTC) + timedelta(days=9)
    assert await store.remove_unused(before=later) == []
    assert (await client.get("/v1/namespaces/default/bundles")).json()["bundles"][0]["programs"] == 1
    assert (await client.delete("/v1/apps/default/shop")).status_code == 200
    assert await store.remove_unused(before=datetime.now(UTC) - timedelta(days=1)) == []
    assert await store.remove_unused(before=later) == [digest]
    assert await StoredWorld(services.pool).size("bundle_chunks") == 0
    with pytest.raises(ConfigurationError, match="does not exist in namespace default"):
        await BundleCache(store, tmp_path / "elsewhere", most_bytes=10**8).folder("default", digest)


async def test_a_damaged_bundle_is_not_executed(client: httpx.AsyncClient, services: Services, tmp_path: Path) -> None:
    (tmp_path / "join.py").write_text("print(1)\n")
    digest, content = archive(tmp_path)
    await client.put(f"/v1/namespaces/default/bundles/{digest}", content=content, headers=TAR)
    await services.pool.execute("UPDATE bundle_chunks SET content = content || 'x'::bytea")

    with pytest.raises(ConfigurationError, match="is damaged"):
        await BundleCache(BundleStore(services.pool), tmp_path / "c", most_bytes=10**8).folder("default", digest)

    assert list((tmp_path / "c").iterdir()) == []


async def test_hostile_archives_are_refused(client: httpx.AsyncClient, services: Services) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as opened:
        opened.addfile(tarfile.TarInfo("../evil.py"))
    for content, status in ((raw.getvalue(), 400), (b"x" * 5000, 400), (bytes(65 * 1024 * 1024), 413)):
        digest = hashlib.sha256(content).hexdigest()
        answer = await client.put(f"/v1/namespaces/default/bundles/{digest}", content=content, headers=TAR)
        assert answer.status_code == status, answer.text
    wrong = await client.put(f"/v1/namespaces/default/bundles/{'0' * 64}", content=b"", headers=TAR)
    assert wrong.status_code == 400
    assert (await client.put("/v1/namespaces/default/bundles/abc", content=b"", headers=TAR)).status_code == 400
    assert await StoredWorld(services.pool).size("bundles") == 0
