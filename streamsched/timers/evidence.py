"""Copies what shows that expectations are met from the log and from the history of runs, and notes up to when all of it
is there. Both loops are singleton roles.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from streamsched.codec import event as event_codec
from streamsched.codec.events.native import LOG_ID
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import PartitionsAdded
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.expectations.presence import evidence_mark
from streamsched.log.intake import TopicIntake
from streamsched.log.topics import PARTITIONS
from streamsched.ports.broker import Broker, Record, TopicPartition
from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever
from streamsched.store.expectations.evidence import CompletionStore, Evidence, EvidenceStore

log = structlog.get_logger()

#: Records of one read.
_BATCH: Final = 1000
#: Seconds that a read waits for records; so old is at most what is known to have been read.
_WAIT_S: Final = 1.0
#: Seconds between two looks while no dataset is expected.
_IDLE_S: Final = 2.0
#: How often rows are deleted that nothing needs any more.
_FORGET_EVERY: Final = timedelta(minutes=10)
#: Lines of one read of the history, and seconds between two reads.
_LINES: Final = 5000
_LOOK_S: Final = 1.0


class EvidenceIntake(TopicIntake[Evidence | None]):
    """Copies commits of datasets that are expected, from topic `partitions`; belongs to one task. While no dataset is
    expected it reads nothing.
    """

    def __init__(self, broker: Broker, store: EvidenceStore, clock: Clock) -> None:
        super().__init__(PARTITIONS, _evidence, broker=broker, store=store, clock=clock, max_records=_BATCH)
        self._log = broker
        self._evidence = store
        self._now = clock.now
        self._ends: dict[int, int] = {}
        self._forget_at = datetime.min.replace(tzinfo=UTC)

    async def step(self) -> float:
        """One iteration of `run`; returns the seconds until the next.

        Raises:
            UnavailableError: the log or PostgreSQL is unavailable; call again.
        """
        await self._forget()
        return 0.0 if await self.copy_once(timeout=_WAIT_S) else _IDLE_S

    async def copy_once(self, *, timeout: float) -> bool:
        """Copies what the log has now, waiting up to `timeout` seconds for more. False: no dataset is expected.

        Raises:
            UnavailableError: as `step`.
        """
        if not await self._evidence.expects(SubjectKind.DATASET):
            await self.close()
            await self._evidence.end(PARTITIONS)
            self._ends = await self._end()
            return False
        if self._reader is None:
            await self._evidence.begin(PARTITIONS, self._ends or await self._end())
        asked_at, ends = self._now(), await self._end()
        await self.run_once(timeout=timeout)
        while any(self._positions.get(partition, 0) < end for partition, end in ends.items()):
            await self.run_once(timeout=timeout)
        await self._evidence.read_to(SubjectKind.DATASET, asked_at)
        return True

    async def _end(self) -> dict[int, int]:
        count = await self._log.partitions(PARTITIONS)
        found = await self._log.ends([TopicPartition(PARTITIONS, partition) for partition in range(count)])
        return {at.partition: end for at, end in found.items()}

    async def _forget(self) -> None:
        now = self._now()
        if now < self._forget_at:
            return
        deleted = await self._evidence.forget(now=now)
        self._forget_at = now + _FORGET_EVERY
        if deleted:
            log.info("evidence.forgotten", rows=deleted)


class CompletionIntake:
    """Copies completed runs of schedules that are expected, from the history."""

    def __init__(self, store: CompletionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Copies until cancelled."""
        await run_forever(self._step, called="completions")

    async def run_once(self) -> int:
        """Copies what the history has now; returns the number of lines.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        read = 0
        while (lines := await self._store.take(now=self._clock.now(), limit=_LINES)) == _LINES:
            read += lines
        return read + lines

    async def _step(self) -> float:
        await self.run_once()
        return _LOOK_S


def _evidence(record: Record) -> Evidence | None:
    """The commit in a record; None: it has none. What cannot be read is a dead letter of the workers."""
    if not record.is_stamped:
        return None
    at = record.at
    try:
        event = event_codec.decode(
            record.value or b"", fallback_id=f"{LOG_ID}{record.time_ms}/{record.offset}", fallback_time=at
        )
    except InvalidError:
        return None
    fact = event.fact
    if not isinstance(fact, PartitionsAdded):
        return None
    mark = evidence_mark(event.id, event.source)
    return Evidence(SubjectKind.DATASET, str(fact.dataset), mark, at, [each.values for each in fact.partitions])
