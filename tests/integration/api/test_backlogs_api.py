"""What the API says while events of a namespace wait in the log for too long: on PostgreSQL, as workers report it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.client import Client
from streamsched.domain.errors import UnavailableError
from streamsched.emit.draft import partitions_added
from streamsched.ports.reports import ShardReport
from streamsched.store.connections import open_pool
from streamsched.store.server.reports import PostgresReportStore
from tests.support.served_api import served_api

pytestmark = pytest.mark.postgres

EVENT = partitions_added("flights", ["d=1"])


def report(database: str, waiting: dict[str, timedelta]) -> None:
    """As a worker does whose shard has backlogs that are so old."""
    since = {name: round((datetime.now(UTC) - age).timestamp() * 1000) for name, age in waiting.items()}
    state = ShardReport(0, 1, "reading", 0, 0, 0, 0, 0, 0, {}, waiting_since=since)

    async def save() -> None:
        pool = await open_pool(database, max_size=1)
        try:
            await PostgresReportStore(pool).save("worker", [state])
        finally:
            await pool.close()

    asyncio.run(save())


def test_events_of_a_namespace_whose_backlog_is_old_are_refused_for_a_time(database: str) -> None:
    with served_api(database, backlog_limit="20s") as api, api.client() as http:
        body = {"source": "t", "type": "partitions.added", "data": {"dataset": "flights", "partitions": ["d=1"]}}
        assert http.post("/v1/events?check=none", json=body).status_code == 202
        report(database, {"default": timedelta(seconds=90), "other": timedelta(hours=1)})

        answers = (http.post("/v1/events?check=none", json=body) for _ in range(10_000))
        refused = next(answer for answer in answers if answer.status_code != 202)
        with Client(api.url, token=api.token, pauses=()) as client, pytest.raises(UnavailableError, match="try again"):
            client.emit(EVENT)

        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "30"
        assert refused.json()["retriable"] is True
        assert "events of namespace 'default' wait for 9" in refused.json()["detail"]
        assert "streamsched_backlog_refused_total" in http.get("/metrics").text
        report(database, {"default": timedelta(seconds=5)})
        with Client(api.url, token=api.token) as client:
            client.emit(EVENT)  # waits, and sends it again
