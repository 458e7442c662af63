"""Emitters that write to a real log, with no server in between."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from streamsched.codec import event as codec
from streamsched.domain.signals.home import home
from streamsched.emit import Emitter, RetryLimits, custom, drain, partitions_added
from streamsched.emit.delivery import EncodedEvent, Unreachable
from streamsched.emit.draft import complete_event
from streamsched.emit.log import LogTransport
from streamsched.log.drivers import open_broker
from streamsched.log.topics import EVENTS, PARTITIONS, topic_specs
from streamsched.ports.broker import TopicPartition

NOW = datetime(2013, 1, 1, tzinfo=UTC)
SHARDS = 4


@pytest.fixture(
    params=[pytest.param("database", marks=pytest.mark.postgres), pytest.param("kafka_log", marks=pytest.mark.kafka)]
)
def url(request: pytest.FixtureRequest) -> str:
    """Of a log without topics."""
    return request.getfixturevalue(request.param)


async def ids(url: str, topic: str, key: str) -> list[str]:
    """The events at a key's home, in their order."""
    broker = await open_broker(url)
    try:
        reader = await broker.reader({TopicPartition(topic, home(key, SHARDS)): 0})
        chunks = await reader.read(max_records=100, timeout=1)
        await reader.close()
    finally:
        await broker.close()
    records = [record for chunk in chunks for record in chunk.records if record.key == key.encode()]
    return [codec.decode(record.value or b"", fallback_id="", fallback_time=NOW).id for record in records]


async def create_topics(url: str) -> None:
    broker = await open_broker(url)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    await broker.close()


async def test_events_lie_at_the_homes_of_their_keys(url: str) -> None:
    await create_topics(url)

    def say() -> None:
        with Emitter(url, source="test") as emitter:
            emitter.emit(partitions_added("flights", ["day=1"], event_id="a"), custom("done", event_id="b"))
            emitter.emit(partitions_added("flights", ["day=2"], event_id="c"))

    await asyncio.to_thread(say)

    assert await ids(url, PARTITIONS, "partition:default.flights") == ["a", "c"]
    assert await ids(url, EVENTS, "event:default.done") == ["b"]


async def test_a_log_that_is_away_leaves_the_event_in_the_spool(url: str, tmp_path: Path) -> None:
    await create_topics(url)
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    hasty = RetryLimits(deadline=timedelta(milliseconds=200), first=timedelta(milliseconds=10))

    def say() -> None:
        with Emitter(nowhere, source="test", spool=tmp_path, patience=hasty) as emitter:
            assert emitter.emit(partitions_added("flights", ["day=1"], event_id="a")).spooled == 1

    await asyncio.to_thread(say)
    assert (await asyncio.to_thread(drain, tmp_path, url)).sent == 1

    assert await ids(url, PARTITIONS, "partition:default.flights") == ["a"]


@pytest.mark.kafka
async def test_an_event_larger_than_the_log_takes_is_refused_alone(kafka_log: str, tmp_path: Path) -> None:
    """What is spooled behind it by others goes out all the same."""
    url = f"{kafka_log}&max_record_bytes={1 << 20}"
    await create_topics(url)
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    hasty = RetryLimits(deadline=timedelta(milliseconds=200), first=timedelta(milliseconds=10))
    big = custom("big", {"text": "x" * (2 << 20)}, event_id="too-large")

    def say() -> None:
        with Emitter(nowhere, source="test", spool=tmp_path, patience=hasty) as emitter:
            emitter.emit(custom("done", event_id="a"), big, custom("done", event_id="b"))
        with Emitter(nowhere, source="another", spool=tmp_path, patience=hasty) as emitter:
            emitter.emit(custom("done", event_id="c"))
        drained = drain(tmp_path, url)
        assert (drained.sent, drained.refused, drained.left) == (3, 1, 0)
        assert b"larger than the server accepts" in next(tmp_path.glob("*.refused")).read_bytes()

    await asyncio.to_thread(say)

    assert await ids(url, EVENTS, "event:default.done") == ["a", "b", "c"]


@pytest.mark.postgres
async def test_a_log_that_answers_no_more_does_not_prevent_closing(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The event is in the spool by then, or was given to be lost: nothing is left that could go wrong."""
    await create_topics(database)
    link = LogTransport(lambda: open_broker(database), timeout=timedelta(seconds=1))
    event = complete_event(custom("done", event_id="a"), source="test", now=NOW)
    busy = await asyncpg.connect(database)
    async with busy.transaction():
        await busy.execute("LOCK TABLE streamsched_log.partition IN ACCESS EXCLUSIVE MODE")
        answer = await asyncio.to_thread(link.send, [EncodedEvent(event, link.encode(event))])
        assert isinstance(answer, Unreachable)
        (thread,) = [each for each in threading.enumerate() if each.name == "streamsched-log"]

        await asyncio.to_thread(link.close)

        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
    assert "log.closed_late" in caplog.text
    connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamsched log'"
    async with asyncio.timeout(20):
        while await busy.fetchval(connections):  # noqa: ASYNC110 - what waited for the lock finds no connection
            await asyncio.sleep(0.05)
    await busy.close()
