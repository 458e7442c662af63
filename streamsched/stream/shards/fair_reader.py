"""Reads the partitions of a shard so that a namespace with a backlog holds up no other (`stream.backlogs`, ADR 42)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, Self

from streamsched.log.topics import SIGNALS
from streamsched.ports.broker import Broker, CatchUpRead, Chunk, Reader, TopicPartition
from streamsched.stream.backlogs import Backlogs
from streamsched.stream.turn import Positions

#: Records of a partition that are taken in one read whoever has sent them; more only of those who have few.
FEW: Final = 250
#: So many times as many are taken of backlogs beside the records of others.
_BEHIND: Final = 4
#: Records of backlogs in one read.
LARGEST: Final = 8_000
#: Seconds that a read waits for records while those of backlogs may not be taken.
_HELD_S: Final = 0.05


class FairReader:
    """Belongs to one task at a time. A read is to be taken in one turn, unless it was one in order; `advance` says
    where the shard stands then.

    Attributes:
        backlogs: by partition; as of the last `read` or `advance`.
    """

    def __init__(
        self,
        broker: Broker,
        front: Reader,
        backlogs: dict[TopicPartition, Backlogs],
        few: int,
        room: Callable[[], int],
    ) -> None:
        """Use `open`."""
        self.backlogs = backlogs
        self._broker = broker
        self._front = front
        self._few = few
        self._room = room
        self._in_order = False
        #: By partition and namespace the reader of a backlog, and how many records it reads.
        self._behind: dict[tuple[TopicPartition, str], Reader] = {}
        self._sizes: dict[tuple[TopicPartition, str], int] = {}

    @classmethod
    async def open(
        cls,
        broker: Broker,
        positions: Mapping[TopicPartition, int],
        backlogs: Mapping[TopicPartition, Backlogs],
        *,
        few: int = FEW,
        room: Callable[[], int] = lambda: LARGEST,
    ) -> Self:
        """`positions`: before which all is taken; `backlogs`: of the partitions of which more is; `few`: records of a
        partition in one read that are always taken; `room`: says before a read with backlogs how many of their records
        may be taken, about.

        Raises:
            UnavailableError: the broker is unavailable.
        """
        known = {at: each for at, each in backlogs.items() if at in positions and each.start >= positions[at]}
        front = await broker.reader({**positions, **{at: each.next for at, each in known.items()}})
        return cls(broker, front, known, few, room)

    @property
    def waiting_since(self) -> Mapping[str, int]:
        """By namespace the log time of the first record of its backlogs, in milliseconds, as far as it is known."""
        found: dict[str, int] = {}
        for each in self.backlogs.values():
            for name, since in each.since.items():
                found[name] = min(since, found.get(name, since))
        return found

    async def read(self, *, max_records: int, timeout: float, in_order: bool) -> list[Chunk]:
        """The next records, as `Reader.read` returns them; a partition may come again, with earlier records.

        `in_order`: each partition in the order of its records instead, those left out that are taken.

        Raises:
            UnavailableError: the broker is unavailable; the shard must start over.
        """
        if in_order is not self._in_order:
            await self._turn_to(in_order=in_order)
        if in_order or not self.backlogs:
            found = await self._front.read(max_records=max_records, timeout=timeout)
            return [self._drop_taken(chunk) if in_order else self._take_next(chunk) for chunk in found]
        room = self._room()
        found = await self._front.read(max_records=max_records, timeout=0.0 if room else _HELD_S)
        fresh = [self._take_next(chunk) for chunk in found]
        at_end = sum(len(chunk.records) for chunk in found) < max_records / 2
        alone = at_end and not any(chunk.records for chunk in fresh)
        room = min(room, max_records if alone else _BEHIND * self._few)
        return [*fresh, *[chunk async for chunk in self._read_behind(room)]]

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        """`Reader.catch_up`."""
        return await self._front.catch_up(partition, max_records=max_records, timeout=timeout)

    def advance(self, positions: Positions, taken: Sequence[Chunk]) -> Positions:
        """The positions before which all is taken, when these chunks are; `positions`: those before."""
        reached = {chunk.at: chunk.next_position for chunk in taken}
        after = positions | reached
        for at, each in list(self.backlogs.items()):
            if self._in_order:
                each.take_in_order(reached.get(at, 0))
            if not each.positions and (not self._in_order or reached.get(at, 0) >= each.next):
                del self.backlogs[at]
            after[at] = each.start
        return after

    async def close(self) -> None:
        """`Reader.close`."""
        await self._close_behind(*self._behind)
        await self._front.close()

    def _take_next(self, chunk: Chunk) -> Chunk:
        known = self.backlogs.get(chunk.at)
        if chunk.topic == SIGNALS or (known is None and len(chunk.records) <= self._few):
            return chunk
        backlogs = known or Backlogs(chunk.next_position)
        taken = backlogs.take_next(chunk, self._few)
        if backlogs.positions:
            self.backlogs[chunk.at] = backlogs
        return taken if known is None else taken._replace(deleted=0)

    def _drop_taken(self, chunk: Chunk) -> Chunk:
        known = self.backlogs.get(chunk.at)
        if known is None:
            return chunk
        return chunk._replace(records=[record for record in chunk.records if not known.is_taken(record)])

    async def _read_behind(self, room: int) -> AsyncIterator[Chunk]:
        """What is read of the backlogs, each of them in the same measure."""
        waiting = [(at, name) for at, each in self.backlogs.items() for name in each.positions]
        share = -(-room // len(waiting)) if waiting else 0
        for key in waiting if share else ():
            at, name = key
            backlogs = self.backlogs[at]
            start, is_first = backlogs.positions[name], backlogs.positions[name] == backlogs.start
            if key not in self._behind:
                self._behind[key] = await self._broker.reader({at: start})
            size = self._sizes.get(key, share)
            for chunk in await self._behind[key].read(max_records=size, timeout=0.0):
                taken = backlogs.take_behind(name, chunk)
                sparse = len(taken.records) < share / 2
                self._sizes[key] = min(size * 2, LARGEST) if sparse else share
                if name not in backlogs.positions:
                    await self._close_behind(key)
                yield taken if is_first else taken._replace(deleted=0)

    async def _turn_to(self, *, in_order: bool) -> None:
        self._in_order = in_order
        await self._close_behind(*self._behind)
        for at, each in self.backlogs.items():
            self._front.seek(at, each.start if in_order else each.next)

    async def _close_behind(self, *keys: tuple[TopicPartition, str]) -> None:
        for key in keys:
            self._sizes.pop(key, None)
            await self._behind.pop(key).close()
