"""Copies accumulations from the triggers changelog into the read model (ADR 1), which may lag but not diverge."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import structlog

from streamsched.codec.json.scalar import integer, loads, mapping
from streamsched.codec.records import halt as halt_codec
from streamsched.codec.records import state
from streamsched.codec.records.state import SEPARATOR
from streamsched.codec.views import explanation
from streamsched.domain.errors import describe_failure
from streamsched.domain.failure_isolation import FailureIsolation
from streamsched.domain.fold.explain import explain
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.home import SCHEDULE_PREFIX, schedule_of
from streamsched.log.topics import TRIGGERS_CHANGELOG
from streamsched.ports.broker import Broker, Chunk, Reader, Record, TopicPartition
from streamsched.ports.intake import HaltedSchedule, OpenKey, Progress, ProgressBatch, ProgressStore
from streamsched.process.run_forever import run_forever

log = structlog.get_logger()

#: Records for one read; only the newest state of each schedule is decoded and stored.
_BATCH: Final = 5000
#: Seconds between reads, so that a busy schedule is stored a few times a second instead of once per turn.
_PACE: Final = 0.2
_WAIT: Final = 5.0
#: Key suffix of the row of a schedule in error (`stream.agents.halts`).
_ERROR: Final = [b"", b"error"]


class ProgressCopy:
    """Any number may run: positions are compared and set, so a batch that two instances copy is stored once."""

    def __init__(self, *, broker: Broker, store: ProgressStore) -> None:
        self._broker = broker
        self._store = store
        self._reader: Reader | None = None
        self._positions: dict[int, int] = {}

    async def run(self) -> None:
        """Copies until cancelled."""
        try:
            await run_forever(self._step, called="progress")
        finally:
            await self.close()

    async def run_once(self, *, timeout: float = _WAIT) -> int:
        """Copies the records of one read, which waits up to `timeout` seconds for records. Returns how many rows of
        schedules and keys were stored or removed.

        Raises:
            UnavailableError: the log or PostgreSQL is unreachable.
        """
        try:
            reader = self._reader or await self._open()
            stored = 0
            for chunk in await reader.read(max_records=_BATCH, timeout=timeout):
                saved = await self._save(chunk)
                if saved is None:
                    await self.close()  # another instance is ahead: continue from its position
                    return stored
                stored += saved
        except BaseException:
            await self.close()
            raise
        return stored

    async def _save(self, chunk: Chunk) -> int | None:
        """Copies a chunk, without a record that cannot be stored. Returns None if another instance is ahead."""
        stored = 0
        search = FailureIsolation(chunk.records)
        for records in search:
            part = chunk.part(records)
            copied = _read_batch(part, self._positions[chunk.partition])
            try:
                saved = await self._store.save(TRIGGERS_CHANGELOG, copied)
            except Exception as exc:  # noqa: BLE001 - caused by one record
                if search.halve(exc):
                    continue
                key = repr(part.records[0].key) if part.records else ""
                log.error("progress.not_stored", key=key, reason=describe_failure(exc))
                copied = _read_batch(part._replace(records=()), copied.start)
                saved = await self._store.save(TRIGGERS_CHANGELOG, copied)
            if not saved:
                return None
            self._positions[chunk.partition] = copied.next
            stored += copied.size
        return stored

    async def close(self) -> None:
        """Closes the reader; the next `run_once` starts from the stored positions."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    async def _step(self) -> float:
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


def _read_batch(chunk: Chunk, start: int) -> ProgressBatch:
    """The newest record of each schedule, open key and halt; skips the shards' own keys and pages of events."""
    keyed = ((record.key, record) for record in chunk.records)
    newest: Mapping[bytes, Record] = {key: record for key, record in keyed if key and key.startswith(SCHEDULE_PREFIX)}
    progress: list[Progress] = []
    deleted: list[ScheduleRef] = []
    keys: list[OpenKey] = []
    closed: list[tuple[ScheduleRef, str]] = []
    halted: list[HaltedSchedule] = []
    healed: list[ScheduleRef] = []
    for row, record in newest.items():
        schedule, *within = row.split(SEPARATOR)
        if len(within) > 1 and within != _ERROR:
            continue
        at = record.at
        try:
            ref, _ = schedule_of(schedule)
            match within, record.value:
                case [], None:
                    deleted.append(ref)
                case [], bytes(value):
                    progress.append(_progress(value, at))
                case [_, _], None:
                    healed.append(ref)
                case [_, _], bytes(value):
                    fields = mapping(loads(value), "$")
                    halt_codec.from_json(fields)
                    halted.append(HaltedSchedule(ref, fields, at))
                case [key], None:
                    closed.append((ref, key.decode()))
                case [key], bytes(value):
                    state_of_key = mapping(loads(value), "$")
                    if "finished" in mapping(state_of_key.get("cell"), "$.cell"):
                        closed.append((ref, key.decode()))
                        continue
                    generation = integer(state_of_key.get("generation"), "$.generation")
                    keys.append(OpenKey(ref, key.decode(), generation, state_of_key, at))
                case _:
                    continue
        except Exception as exc:  # noqa: BLE001 - for example a newer release's state; other rows continue
            log.warning("progress.unreadable", key=repr(row), offset=record.offset, reason=describe_failure(exc))
    return ProgressBatch(chunk.partition, start, chunk.next_position, progress, deleted, keys, closed, halted, healed)


def _progress(value: bytes, at: datetime) -> Progress:
    now = state.decode(value)
    fields = {**explanation.to_json(explain(now)), **explanation.losses(now)}
    return Progress(now.schedule, now.generation, now.sequence, fields, at)
