"""A broker that breaks: at a chosen call, before or after the call has had its effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from streamsched.domain.errors import UnavailableError
from streamsched.ports.broker import Broker, CatchUpRead, Chunk, Outgoing, Reader, TopicPartition, Writer
from tests.support.broker_proxy import BrokerThrough

_T = TypeVar("_T")


class When(StrEnum):
    """Whether the call had its effect when it broke. After it, only the answer was lost."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(slots=True)
class Faults:
    """Which calls break: number → when. Calls that bring nothing (idle reads) are not counted.

    `calls` has the name of every counted call so far; `broken` those that broke.
    """

    plan: Mapping[int, When] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    async def around(self, name: str, call: Callable[[], Awaitable[_T]]) -> _T:
        when = self.plan.get(len(self.calls))
        if when is None or name == "read":
            result = await call()
            if name == "read":
                if not result:
                    return result
                when = self.plan.get(len(self.calls))
            self.calls.append(name)
            if name == "read" and when is not None:
                self._break(name, when)
            return result
        self.calls.append(name)
        if when is When.AFTER:
            await call()
        return self._break(name, when)

    def _break(self, name: str, when: When) -> _T:  # type: ignore[type-var]
        self.broken.append(f"{when} {name}")
        raise UnavailableError(f"as the test requires: {when} call {len(self.calls)}, {name}")


class FaultyBroker(BrokerThrough):
    """Another broker, whose calls break as `faults` say. Plain appends never do: they are the tests' own."""

    def __init__(self, broker: Broker, faults: Faults) -> None:
        super().__init__(broker)
        self._faults = faults

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return await self._faults.around("ends", lambda: self.inner.ends(partitions))

    async def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        return _Reader(await self._faults.around("reader", lambda: self.inner.reader(positions)), self._faults)

    async def writer(self, name: str) -> Writer:
        return _Writer(await self._faults.around("writer", lambda: self.inner.writer(name)), self._faults)


class _Reader:
    def __init__(self, reader: Reader, faults: Faults) -> None:
        self._reader = reader
        self._faults = faults

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        return await self._faults.around("read", lambda: self._reader.read(max_records=max_records, timeout=timeout))

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        return await self._reader.catch_up(partition, max_records=max_records, timeout=timeout)

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._reader.seek(partition, position)

    async def close(self) -> None:
        await self._reader.close()


class _Writer:
    def __init__(self, writer: Writer, faults: Faults) -> None:
        self._writer = writer
        self._faults = faults

    async def commit(self, records: Sequence[Outgoing]) -> None:
        await self._faults.around("commit", lambda: self._writer.commit(records))

    async def close(self) -> None:
        await self._writer.close()
