"""Implements `streamsched.ports.broker` on Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

from redis import asyncio as aioredis
from redis import exceptions
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from streamsched.domain.errors import ConfigurationError, FencedError, NotFoundError, UnavailableError
from streamsched.ports.broker import (
    NOTHING_UNREAD,
    Capabilities,
    CatchUpRead,
    Chunk,
    Outgoing,
    Record,
    TopicPartition,
    TopicSpec,
)
from streamsched.ports.clock import Clock
from streamsched_redis.scripts import APPEND, CREATE

CAPABILITIES = Capabilities(fenced=True, transactional=True, durable=True, compaction=False, shared=True)
_PREFIX = "streamsched:"
#: Interval at which a waiting reader polls, in case it missed a notification.
_RECHECK_SECONDS = 1.0
#: Entries of a stream: id and fields. The client's own types are wider: it could also be told to decode texts.
_Entries = list[tuple[bytes, dict[bytes, bytes]]]


async def open_broker(url: str) -> RedisBroker:
    """Opens the log at `redis://host:port/database`. Disables the client's retries, which would append records twice if
    an answer was lost.

    Raises:
        UnavailableError: Redis does not answer.
        ConfigurationError: the URL is wrong, or Redis denies access.
    """
    try:
        client = aioredis.Redis.from_url(url, max_connections=64, retry=Retry(NoBackoff(), 0))
    except ValueError as exc:
        raise ConfigurationError(f"the log's URL must be redis://host:port/database: {exc}") from exc
    async with translated():
        await client.ping()
    return RedisBroker(client)


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Translates Redis' errors into the port's."""
    try:
        yield
    except (exceptions.AuthenticationError, exceptions.NoPermissionError) as exc:
        raise ConfigurationError(f"Redis denies access: {exc}") from exc
    except (exceptions.RedisError, OSError) as exc:
        raise UnavailableError(f"Redis does not answer: {exc}") from exc


class RedisBroker:
    """One process's connections to the log."""

    def __init__(self, client: aioredis.Redis) -> None:
        self._redis = client
        self._partitions: dict[str, int] = {}

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def keep_time(self, clock: Clock) -> None:
        """Does nothing: records have Redis's time."""

    async def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            shape = f"{spec.partitions} partitions, cleanup '{spec.cleanup}'"
            kept = None if spec.retention is None else spec.retention // timedelta(milliseconds=1)
            stored = json.dumps({"shape": shape, "partitions": spec.partitions, "retention_ms": kept})
            async with translated():
                found = await self._redis.eval(CREATE, 1, f"{_PREFIX}topics", spec.name, stored, shape)
            if found.decode() != shape:
                raise ConfigurationError(f"topic '{spec.name}' exists with {found.decode()}; wanted {shape}")

    async def append(self, records: Sequence[Outgoing]) -> None:
        await self.write(records)

    async def write(self, records: Sequence[Outgoing], writer: str = "", epoch: int = 0) -> None:
        """Appends all records or none; checks the fence if `writer` is given."""
        await self.check((record.topic, record.partition) for record in records)
        if not records:
            return
        flat: list[bytes | str] = [writer, str(epoch)]
        for topic, partition, key, value in records:
            flat += [f"{topic}/{partition}", key or b"", value or b"", str(int(key is None)), str(int(value is None))]
        keys = [_PREFIX + name for name in ("epoch", "end", "log:", "grown")]
        async with translated():
            written = await self._redis.eval(APPEND, len(keys), *keys, *flat)
        if not written:
            raise FencedError(writer)

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        await self.check(partitions)
        if not partitions:
            return {}
        async with translated():
            ends = await self._redis.hmget(f"{_PREFIX}end", [f"{topic}/{number}" for topic, number in partitions])
        return {at: int(end or 0) for at, end in zip(partitions, ends, strict=True)}

    async def partitions(self, topic: str) -> int:
        if topic not in self._partitions:
            async with translated():
                stored = await self._redis.hget(f"{_PREFIX}topics", topic)
            if stored is None:
                raise NotFoundError("topic", topic)
            self._partitions[topic] = json.loads(stored)["partitions"]
        return self._partitions[topic]

    async def check(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Raises:
        NotFoundError: a partition does not exist.
        """
        for topic, number in set(partitions):
            if not 0 <= number < await self.partitions(topic):
                raise NotFoundError("partition", f"{topic}/{number}")

    async def reader(self, positions: Mapping[TopicPartition, int]) -> RedisReader:
        await self.check(positions)
        grown = self._redis.pubsub()
        async with translated():
            await grown.subscribe(f"{_PREFIX}grown")
        return RedisReader(self._redis, grown, positions)

    async def writer(self, name: str) -> RedisWriter:
        async with translated():
            return RedisWriter(self, name, await self._redis.hincrby(f"{_PREFIX}epoch", name, 1))

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None: ...

    async def maintain(self, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD) -> None:
        """Applies retention, except to the newest record of a partition, which marks its end, and to unread ones."""
        async with translated():
            seconds, micros = await self._redis.time()
            topics = cast("dict[bytes, bytes]", await self._redis.hgetall(f"{_PREFIX}topics"))
            for name, stored in topics.items():
                spec = json.loads(stored)
                if spec["retention_ms"] is not None:
                    oldest = seconds * 1000 + micros // 1000 - spec["retention_ms"]
                    for number in range(spec["partitions"]):
                        first = unread.get(TopicPartition(name.decode(), number))
                        await self._expire(f"{_PREFIX}log:{name.decode()}/{number}", oldest, first)

    async def close(self) -> None:
        await self._redis.aclose()

    async def _expire(self, stream: str, oldest_ms: int, unread: int | None) -> None:
        entries = cast("_Entries", await self._redis.xrange(stream))
        for entry, fields in entries[:-1]:
            if int(fields[b"t"]) > oldest_ms or (unread is not None and _record(entry, fields).offset >= unread):
                return
            await self._redis.xdel(stream, entry)


class RedisWriter:
    """The writer of a name at one epoch."""

    def __init__(self, broker: RedisBroker, name: str, epoch: int) -> None:
        self._broker = broker
        self._name = name
        self._epoch = epoch

    async def commit(self, records: Sequence[Outgoing]) -> None:
        await self._broker.write(records, self._name, self._epoch)

    async def close(self) -> None: ...


class RedisReader:
    """Reads from positions kept in memory; a published message wakes a waiting read."""

    def __init__(self, client: aioredis.Redis, grown: PubSub, positions: Mapping[TopicPartition, int]):
        self._redis = client
        self._grown = grown
        self._positions = dict(positions)

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        async with translated():
            while not (chunks := await self._take(dict(self._positions), max_records)):
                left = deadline - loop.time()
                if left <= 0:
                    return []
                await self._grown.get_message(ignore_subscribe_messages=True, timeout=min(left, _RECHECK_SECONDS))
        return chunks

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        async with translated():
            chunks = await self._take({partition: self._positions[partition]}, max_records)
        return CatchUpRead(chunks, sum(len(chunk.records) for chunk in chunks) < max_records)

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._positions[partition] = position

    async def close(self) -> None:
        await self._grown.aclose()

    async def _take(self, requested: Mapping[TopicPartition, int], max_records: int) -> list[Chunk]:
        per_partition = max(1, max_records // len(requested))
        pipe = self._redis.pipeline(transaction=False)
        for (topic, number), position in requested.items():
            pipe.xrange(f"{_PREFIX}log:{topic}/{number}", min=f"{max(0, position) + 1}-0", count=per_partition)
        chunks: list[Chunk] = []
        for (at, position), entries in zip(requested.items(), await pipe.execute(), strict=True):
            if entries and self._positions[at] == position:
                records = [_record(*entry) for entry in entries]
                self._positions[at] = records[-1].offset + 1
                gone = records[0].offset - max(0, position)
                chunks.append(Chunk(at.topic, at.partition, records, records[-1].offset + 1, gone))
        return chunks


def _record(entry: bytes, fields: Mapping[bytes, bytes]) -> Record:
    no_key, no_value = (flag == ord("1") for flag in fields[b"n"])
    key, value = (None if no_key else fields[b"k"]), (None if no_value else fields[b"v"])
    return Record(int(entry.partition(b"-")[0]) - 1, key, value, int(fields[b"t"]))
