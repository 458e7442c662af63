"""Kafka behind TLS and SCRAM: shards, emitters and topics work there, and who may not come in is given why."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from compose.kafka.certificate import make_security
from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.emit import Emitter, partitions_added
from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(200)]

FLIGHTS = DatasetRef("default", "flights")
USERS = {"admin": "admin-secret", "streamsched": "p@ss/word"}


@pytest.fixture(scope="module")
def cluster(kafka: str) -> Iterator[Cluster]:
    """A broker that requires a password; the session's has brought the jars."""
    with tempfile.TemporaryDirectory(prefix="ss-tls-", ignore_cleanup_errors=True) as folder:
        security = make_security(Path(folder), USERS)
        cluster = Cluster(Path(folder) / "kafka", Shape(free_addresses(1), security))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill()


def url(cluster: Cluster, *, login: str = "streamsched:p%40ss%2Fword", trusted: bool = True) -> str:
    assert cluster.shape.security is not None
    cafile = f"cafile={cluster.shape.security.truststore}&" if trusted else ""
    return f"kafka://{login}@{cluster.servers}/?{cafile}mechanism=SCRAM-SHA-512&prefix=t{uuid.uuid4().hex[:8]}."


@pytest.fixture
def log(cluster: Cluster) -> str:
    return url(cluster)


@pytest.fixture
async def broker(log: str) -> AsyncIterator[Broker]:
    made = await open_broker(log)
    yield made
    await made.close()


async def test_shards_move_and_emitters_emit(broker: Broker, log: str) -> None:
    shard_cluster = await ShardCluster.create(broker)
    await shard_cluster.start()
    await shard_cluster.put(schedule("four"), Partitions(FLIGHTS, 4))
    await shard_cluster.emit(landed(0), landed(1))
    await shard_cluster.settle()
    old = shard_cluster.shards
    await shard_cluster.start()

    def say() -> None:
        with Emitter(log, source="test") as emitter:
            emitter.emit(partitions_added("flights", ["day=1"], event_id="a"))
            emitter.emit(partitions_added("flights", ["day=2"], event_id="b"))

    await asyncio.to_thread(say)
    await shard_cluster.settle()

    (job,) = await shard_cluster.jobs()
    assert event_ids(job) == ["flights-0", "flights-1", "a", "b"]

    await asyncio.gather(shard_cluster.stop(), *(shard.stop() for shard in old))


@pytest.mark.parametrize(
    ("login", "trusted", "says"),
    [
        ("streamsched:wrong", True, "refuses this client.*uthentication"),
        ("nobody:secret", True, "refuses this client.*uthentication"),
        ("streamsched:p%40ss%2Fword", False, "refuses this client.*certificate"),
    ],
)
async def test_who_may_not_come_in_is_reported_why_at_once(
    cluster: Cluster, login: str, trusted: bool, says: str
) -> None:
    async with asyncio.timeout(8):
        with pytest.raises(ConfigurationError, match=says) as refused:
            await open_broker(url(cluster, login=login, trusted=trusted))

    assert "p@ss" not in str(refused.value)
    assert "wrong" not in str(refused.value)
