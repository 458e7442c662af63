"""Clusters over HTTP: the probe, the last reading and when, and each gate with its hysteresis."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.domain.constraints.load import ClusterReading, Hysteresis, Load
from streamsched.roles.api import api_services
from streamsched.roles.services import Services
from streamsched.store.limits import clusters as store
from streamsched.store.limits.clusters import ClusterStore

pytestmark = pytest.mark.postgres

LOAD = Load("main", free_cores=Hysteresis(8, 4))


async def listed(services: Services) -> list[dict[str, object]]:
    clusters = "main=spark+http://ann:secret@master:8080/?token=x,spare=yarn+http://manager:8088"
    settings = services.settings.replace(clusters=clusters)
    api = make_api(api_services(replace(services, settings=settings)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://localhost") as client:
        answer = await client.get("/v1/clusters")
    assert "secret" not in answer.text
    assert "token" not in answer.text
    return answer.json()["clusters"]


async def test_a_cluster_says_its_probe_its_reading_and_where_its_gates_stand(services: Services) -> None:
    board = ClusterStore(services.pool)
    async with services.pool.acquire() as connection, connection.transaction():
        await store.lock_gates(connection, [LOAD])
    for cores in (9, 5):
        await board.record_reading("main", ClusterReading(cores, 2_000_000_000), now=services.clock.now())

    main, spare = await listed(services)

    assert (main["name"], main["probe"]) == ("main", "spark+http://master:8080/")
    assert (main["freeCores"], main["freeMemory"], main["running"]) == (5, 2_000_000_000, None)
    assert (main["stale"], main["failed"], main["waiting"]) == (False, None, 0)
    [gate] = main["gates"]  # type: ignore[misc]
    assert (gate["open"], gate["needs"]) == (True, "8 cores or more free (until fewer than 4) on cluster main")
    assert (spare["probe"], spare["readAt"], spare["stale"], spare["gates"]) == (
        *("yarn+http://manager:8088", None, True),
        [],
    )

    await board.record_reading("main", ClusterReading(3), now=services.clock.now())
    await board.record_failure("main", "connection refused", now=services.clock.now())
    main, _ = await listed(services)
    assert [each["open"] for each in main["gates"]] == [False]  # type: ignore[union-attr]
    assert main["failed"] == "connection refused"
