"""Copies accumulations from the triggers changelog into the read model (ADR 0003): may lag, cannot disagree."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import structlog

from streamsched.attendance import attend
from streamsched.codec import explanation, state
from streamsched.codec import halt as halt_codec
from streamsched.codec.scalar import integer, loads, mapping
from streamsched.codec.state import SEPARATOR
from streamsched.domain.errors import InvalidError
from streamsched.domain.explain import explain
from streamsched.domain.names import ScheduleRef
from streamsched.ports.broker import Broker, Chunk, Reader, Record, TopicPartition
from streamsched.ports.progress import Copied, Halted, OpenKey, Progress, ProgressStore
from streamsched.ports.topics import TRIGGERS_CHANGELOG

log = structlog.get_logger()

_PREFIX: Final = b"schedule:"
#: Records for one read; only the newest state of each schedule is decoded and stored.
_BATCH: Final = 5000
#: Seconds between reads, so that a busy schedule is written a few times a second and not once for each turn.
_PACE: Final = 0.2
_WAIT: Final = 5.0
#: What a row of a schedule in error has behind the schedule (`stream.halts`).
_ERROR: Final = [b"", b"error"]


class ProgressCopy:
    """Any number may run: a partition's position moves by comparison, so what two of them copy is stored once."""

    def __init__(self, *, broker: Broker, store: ProgressStore) -> None:
        self._broker = broker
        self._store = store
        self._reader: Reader | None = None
        self._positions: dict[int, int] = {}

    async def run(self) -> None:
        """Copies until cancelled."""
        try:
            await attend(self._look, called="progress")
        finally:
            await self.close()

    async def run_once(self, *, timeout: float = _WAIT) -> int:
        """Copies what one read brings, waiting up to `timeout` seconds for something to come. Returns how many
        schedules' and keys' rows were stored or removed.

        Raises:
            UnavailableError: log or PostgreSQL are away.
        """
        try:
            reader = self._reader or await self._open()
            stored = 0
            for chunk in await reader.read(max_records=_BATCH, timeout=timeout):
                copied = _copied(chunk, self._positions[chunk.partition])
                if not await self._store.save(TRIGGERS_CHANGELOG, copied):
                    await self.close()  # another copy is ahead of us: go on from where it is
                    return stored
                self._positions[chunk.partition] = copied.next
                stored += copied.size
        except BaseException:
            await self.close()
            raise
        return stored

    async def close(self) -> None:
        """Gives the reader up; the next `run_once` starts from the stored positions."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    async def _look(self) -> float:
        await self.run_once()
        return _PACE

    async def _open(self) -> Reader:
        stored = await self._store.positions(TRIGGERS_CHANGELOG)
        partitions = range(await self._broker.partitions(TRIGGERS_CHANGELOG))
        self._positions = {partition: stored.get(partition, 0) for partition in partitions}
        self._reader = await self._broker.reader(
            {TopicPartition(TRIGGERS_CHANGELOG, partition): at for partition, at in self._positions.items()}
        )
        return self._reader


def _copied(chunk: Chunk, start: int) -> Copied:
    """The newest record of each schedule and open key; the shards' own keys, and pages of events, are neither."""
    newest: Mapping[bytes, Record] = {
        record.key: record for record in chunk.records if record.key is not None and record.key.startswith(_PREFIX)
    }
    progress: list[Progress] = []
    gone: list[ScheduleRef] = []
    keys: list[OpenKey] = []
    closed: list[tuple[ScheduleRef, str]] = []
    halted: list[Halted] = []
    healed: list[ScheduleRef] = []
    for row, record in newest.items():
        name, *within = row.removeprefix(_PREFIX).split(SEPARATOR)
        if len(within) > 1 and within != _ERROR:
            continue
        at = datetime.fromtimestamp(record.time_ms / 1000, UTC)
        try:
            ref = ScheduleRef.parse(name.decode())
            match within, record.value:
                case [], None:
                    gone.append(ref)
                case [], bytes(value):
                    progress.append(_progress(value, at))
                case [_, _], None:
                    healed.append(ref)
                case [_, _], bytes(value):
                    told = mapping(loads(value), "$")
                    halt_codec.from_json(told)
                    halted.append(Halted(ref, told, at))
                case [key], None:
                    closed.append((ref, key.decode()))
                case [key], bytes(value):
                    state_of_key = mapping(loads(value), "$")
                    generation = integer(state_of_key.get("generation"), "$.generation")
                    keys.append(OpenKey(ref, key.decode(), generation, state_of_key, at))
                case _:
                    continue
        except (InvalidError, UnicodeDecodeError) as exc:  # a newer release's state, say: nobody is held up by it
            log.warning("progress.unreadable", key=repr(row), offset=record.offset, reason=str(exc))
    return Copied(chunk.partition, start, chunk.next_position, progress, gone, keys, closed, halted, healed)


def _progress(value: bytes, at: datetime) -> Progress:
    now = state.decode(value)
    lost = {"lost_keys": now.lost} if now.lost else {}
    return Progress(now.schedule, now.generation, now.sequence, {**explanation.to_json(explain(now)), **lost}, at)
