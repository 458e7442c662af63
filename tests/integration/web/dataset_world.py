"""Datasets as a whole installation tells of them: deployed, emitted over HTTP, folded by shards, and copied."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from streamsched.catalog.progress import ProgressCopy
from streamsched.catalog.verdicts import VerdictIntake
from streamsched.roles.services import Services
from streamsched.store.catalog.progress import PostgresProgress
from streamsched.store.events.verdicts import VerdictStore
from tests.integration.web.conftest import Browser
from tests.support.shard_cluster import ShardCluster

#: The hours of 29 March 2026 in Berlin but the last: the clocks skip the third.
HOURS: Final = tuple(f"{hour:02}" for hour in range(23) if hour != 2)
DAY: Final = "2026-03-29"


def rolled_up(dataset: str = "clicks", **more: Any) -> dict[str, Any]:
    """The hours of a dataset, rolled up to days of Berlin."""
    leaf = {"type": "PARTITION", "dataset": dataset, "numPartitions": 1}
    zone = {"grain": "hour", "rolledUpTo": "day", "zone": "Europe/Berlin"}
    return {"type": "PER", "trigger": leaf, "by": ["day", "hour"], **zone, **more}


def app(trigger: Mapping[str, Any], *names: str, **more: Any) -> dict[str, Any]:
    """An app whose schedules have this trigger."""
    return {
        "programs": [{"name": "report", "type": "bash", "command": "true"}],
        "schedules": [{"name": name, "program": "report", "trigger": trigger, **more} for name in names],
    }


class DatasetWorld:
    """An administrator's browser, and what folds and copies what he sends."""

    def __init__(self, services: Services, browser: Browser, cluster: ShardCluster) -> None:
        self.services = services
        self.browser = browser
        self._cluster = cluster
        self._sent = 0

    @classmethod
    @asynccontextmanager
    async def at_work(cls, services: Services, browser: Browser) -> AsyncIterator[DatasetWorld]:
        cluster = ShardCluster(services.broker, services.layout.shards)
        await cluster.start()
        try:
            yield cls(services, browser, cluster)
        finally:
            await cluster.stop()

    async def deploy(self, body: Mapping[str, Any], name: str = "default/traffic") -> None:
        answer = await self.browser.http.put(f"/v1/apps/{name}", json=body, headers=self.browser.authorization)
        assert answer.status_code == 200, answer.text

    async def commit(self, dataset: str, *partitions: str, age: timedelta | None = None, **more: str) -> None:
        """One event for each partition. `age`: how long ago it happened."""
        for partition in partitions:
            self._sent += 1
            event: dict[str, Any] = {"id": f"e{self._sent}", "source": "etl", "type": "partitions.added", **more}
            event["data"] = {"dataset": dataset, "partitions": [partition]}
            if age is not None:
                event["time"] = (self.services.clock.now() - age).isoformat()
            answer = await self.browser.http.post("/v1/events", json=event, headers=self.browser.authorization)
            assert answer.status_code == 202, answer.text

    async def commit_at_once(self, dataset: str, partitions: Sequence[str]) -> None:
        """One event for each partition, in one request."""
        events: list[dict[str, Any]] = []
        for partition in partitions:
            self._sent += 1
            data = {"dataset": dataset, "partitions": [partition]}
            events.append({"id": f"e{self._sent}", "source": "etl", "type": "partitions.added", "data": data})
        answer = await self.browser.http.post("/v1/events", json=events, headers=self.browser.authorization)
        assert answer.status_code == 202, answer.text

    async def settled(self) -> None:
        """Until the read model has what was sent."""
        await self._cluster.settle()
        pool, broker, keep = self.services.pool, self.services.broker, timedelta(days=7)
        copy = ProgressCopy(broker=broker, store=PostgresProgress(pool))
        while await copy.run_once(timeout=0.01):
            pass
        await copy.close()
        verdicts = VerdictIntake(broker, VerdictStore(pool, keep=keep), self.services.clock, keep=keep)
        while await verdicts.run_once(timeout=0.01):
            pass
        await verdicts.close()

    async def dataset(self, name: str = "default/clicks", browser: Browser | None = None, **query: int) -> Any:
        who = browser or self.browser
        answer = await who.http.get(f"/v1/datasets/{name}", params=query, headers=who.authorization)
        assert answer.status_code == 200, answer.text
        return answer.json()


def hours(day: str, names: Sequence[str]) -> list[str]:
    return [f"day={day}/hour={each}" for each in names]
