"""What a run has committed: announced by the run or another attempt of its job, seen in the run; others say nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import pytest

from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.jobs.run_commit import MOST_COMMITS, RunCommit
from streamsched.domain.names import DatasetRef
from streamsched.log.records import records
from streamsched.log.topics import PARTITIONS
from streamsched.ports.broker import TopicPartition
from streamsched.roles.services import Services, open_services
from streamsched.store.runs.run_commits import RunCommitStore
from tests.integration.api.test_access import token
from tests.integration.api.test_fences_api import run_token

pytestmark = pytest.mark.postgres

FIRST, SECOND, OTHER = "sales.shop.daily.1.1.r1", "sales.shop.daily.1.1.r2", "sales.shop.other.1.1.r1"
BY_HAND: Final = "sales.shop.join.manual-x.r1"


@pytest.fixture
async def services(database: str) -> AsyncIterator[Services]:
    """With tokens."""
    async with open_services(Settings.from_env({}, database_url=database)) as services:
        yield services


def announcement(run: str, event: str = "daily-1", rows: int = 100) -> dict[str, Any]:
    partitions = [{"key": f"day={day}", "rows": rows // 2, "bytes": 1000} for day in (1, 2)]
    return {
        "id": event,
        "source": "/datasets/sales.orders",
        "type": "partitions.added",
        "data": {"dataset": "sales.orders", "partitions": partitions, "run": run},
    }


async def commits(client: httpx.AsyncClient, headers: dict[str, str], run: str) -> list[tuple[Any, ...]]:
    found = (await client.get(f"/v1/runs/{run}", headers=headers)).raise_for_status().json()["commits"]
    return [tuple(each[name] for name in ("dataset", "commit", "partitions", "rows", "bytes")) for each in found]


async def emit(client: httpx.AsyncClient, headers: dict[str, str], *events: dict[str, Any]) -> None:
    answer = await client.post("/v1/events", json=list(events), headers=headers)
    assert (answer.status_code, answer.json()["accepted"]) == (202, len(events)), answer.text


async def test_another_attempt_announces_what_the_first_one_committed(
    client: httpx.AsyncClient, services: Services
) -> None:
    admin = await token(services, "a", Grant(role=AccessRole.ADMIN))
    await run_token(services, FIRST)
    second = await run_token(services, SECOND)
    expected = ("sales.orders", "daily-1", 2, 100, 2000)

    for _ in range(2):
        await emit(client, second, announcement(FIRST), announcement(SECOND, "daily-2", 10))

    assert await commits(client, admin, FIRST) == [expected]
    assert await commits(client, admin, SECOND) == [("sales.orders", "daily-2", 2, 10, 2000)]


async def test_a_run_by_hand_is_its_own_job(client: httpx.AsyncClient, services: Services) -> None:
    admin = await token(services, "a", Grant(role=AccessRole.ADMIN))
    own = await run_token(services, BY_HAND)

    await emit(client, own, announcement(f"{BY_HAND}.r1"))

    assert [each[1] for each in await commits(client, admin, BY_HAND)] == ["daily-1"]


async def test_what_others_say_of_a_run_is_left_out(client: httpx.AsyncClient, services: Services) -> None:
    """The event itself counts: the caller may announce it."""
    admin = await token(services, "a", Grant(role=AccessRole.ADMIN))
    await run_token(services, FIRST)
    other = await run_token(services, OTHER)
    emitter = await token(services, "e", Grant(role=AccessRole.EMITTER, namespace="sales"))

    for headers in (other, emitter):
        await emit(client, headers, announcement(FIRST))

    assert await commits(client, admin, FIRST) == []


async def test_the_largest_numbers_are_kept_as_the_largest_and_the_log_names_no_run(
    client: httpx.AsyncClient, services: Services
) -> None:
    """Neighbours in other namespaces read the log: they are not told whose run it was."""
    admin = await token(services, "a", Grant(role=AccessRole.ADMIN))
    own = await run_token(services, FIRST)
    event = announcement(FIRST)
    event["data"]["partitions"] = [{"key": f"day={day}", "rows": 2**63 - 1, "bytes": 2**63 - 1} for day in range(3)]

    await emit(client, own, event)

    assert await commits(client, admin, FIRST) == [("sales.orders", "daily-1", 3, 2**63 - 1, 2**63 - 1)]
    listed = (await client.get("/v1/runs", headers=admin)).raise_for_status().json()
    assert [each["commits"] for each in listed["runs"]] == [[]]
    for number in range(services.layout.unkeyed_partitions):
        async for record in records(services.broker, TopicPartition(PARTITIONS, number)):
            assert FIRST.encode() not in (record.value or b"")


async def test_of_a_run_a_bounded_number_is_stored(services: Services) -> None:
    await run_token(services, FIRST)
    store = RunCommitStore(services.pool)

    async def add(*numbers: int) -> int:
        now, dataset = datetime(2026, 3, 1, tzinfo=UTC), DatasetRef("sales", "orders")
        counts = {"partitions": 1, "rows": 2**63 - 1, "bytes": 2**63 - 1}
        await store.add(
            [RunCommit(run=FIRST, commit=f"c{each}", dataset=dataset, at=now, **counts) for each in numbers]
        )
        return await services.pool.fetchval(
            "SELECT count(*) FROM runs, jsonb_object_keys(commits) WHERE runs.id = $1", FIRST
        )

    assert await add(*range(MOST_COMMITS)) == MOST_COMMITS
    assert await add(MOST_COMMITS) == MOST_COMMITS
