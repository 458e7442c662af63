"""What administrators ask through the API."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from streamsched.log.topics import DEAD_LETTER
from streamsched.ports.broker import Outgoing
from streamsched.roles.services import Services

pytestmark = pytest.mark.postgres


async def dead(services: Services, count: int) -> None:
    await services.broker.append(
        [
            Outgoing(
                DEAD_LETTER,
                0,
                None,
                b'{"topic":"partitions","partition":0,"offset":%d,"time_ms":%d,"path":"$","reason":"bad","key_b64":null,'
                b'"value_b64":"e30="}' % (number, 1_700_000_000_000 + number // 2),
            )
            for number in range(count)
        ]
    )


async def test_dead_letters_in_pages_shown_replayed_and_purged(client: httpx.AsyncClient, services: Services) -> None:
    await dead(services, 5)

    first = (await client.get("/v1/admin/dead-letters", params={"limit": 2})).json()
    second = (await client.get("/v1/admin/dead-letters", params={"limit": 2, "after": first["next"]})).json()
    third = (await client.get("/v1/admin/dead-letters", params={"limit": 2, "after": second["next"]})).json()
    ids = [each["id"] for page in (first, second, third) for each in page["letters"]]
    assert (len(ids), len(set(ids)), "next" in third) == (5, 5, False)

    shown = (await client.get(f"/v1/admin/dead-letters/{ids[0]}")).json()
    assert (shown["reason"], shown["value"]) == ("bad", "{}")
    assert (await client.get("/v1/admin/dead-letters/0/99")).status_code == 404
    assert (await client.get("/v1/admin/dead-letters/x/y")).status_code == 400
    again = await client.post(f"/v1/admin/dead-letters/{ids[0]}/replay")
    assert (again.status_code, again.json()) == (202, {"id": ids[0], "topic": "partitions", "partition": 0})

    assert (await client.post("/v1/admin/dead-letters/purge")).json() == {"purged": 5}
    assert (await client.get("/v1/admin/dead-letters")).json() == {"letters": []}


async def test_checks_overview_and_state(
    deployed: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # where there is none
    checks = (await deployed.get("/v1/admin/checks")).json()
    by_name = {each["check"]: each for each in checks["findings"]}
    assert by_name["schema"]["health"] == "ok"
    assert by_name["shards"]["health"] == checks["health"] == "failed"  # no worker runs
    assert by_name["java"]["health"] == "warning"

    overview = (await deployed.get("/v1/admin/overview")).json()
    assert {each["state"] for each in overview["shards"]} == {"unowned"}
    assert (await deployed.get("/v1/admin/schedules/default.flights.typo/state")).status_code == 404
