"""Registers the tasks that PagerDuty's clients write to a topic (`codec.task`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from streamsched.dialects.pagerduty.codec.task import POLICY, decode
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.limits import add_duration
from streamsched.domain.tasks.queue import QueuePolicy
from streamsched.domain.tasks.task import TaskRequest
from streamsched.log.intake import TopicIntake
from streamsched.ports.broker import Broker, Cleanup, Reader, Record, TopicPartition, TopicSpec
from streamsched.ports.clock import Clock
from streamsched.ports.intake import IntakeBatch, IntakeStore
from streamsched.store.tasks.queues import QueueStore

log = structlog.get_logger()

#: Records in one transaction: their data is in memory, at most 256 KiB each.
_AT_ONCE: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def open_pagerduty_queue(queues: QueueStore, name: str, clock: Clock) -> None:
    """Creates the queue with PagerDuty's policy if it does not exist. Idempotent.

    Raises:
        UnavailableError: PostgreSQL is unavailable.
        ConflictError: as `check_identity`.
    """
    try:
        check_identity(name, (await queues.get(name)).queue.policy)
    except NotFoundError:
        await queues.set(name, POLICY, "for tasks of PagerDuty's clients", now=clock.now())


def check_identity(queue: str, policy: QueuePolicy) -> None:
    """Checks that the queue tells tasks of one key at several times from each other, as PagerDuty's keys do.

    Raises:
        ConflictError: it does not, so that all but one of them would be lost.
    """
    if policy.identity is not POLICY.identity:
        raise ConflictError(
            f"queue '{queue}' takes tasks of one key at several times for one task, which PagerDuty's are not; "
            f"create another queue with `--identity {POLICY.identity}`, and name it"
        )


class TaskIntake(TopicIntake[TaskRequest]):
    """Copies one topic into one queue; for use by one task. The queue is created with PagerDuty's policy, and the topic
    with `partitions` partitions, if they are missing. The positions are shown as those of group `group`.
    """

    def __init__(
        self,
        topic: str,
        queue: str,
        *,
        broker: Broker,
        letters: Broker,
        store: IntakeStore[TaskRequest],
        queues: QueueStore,
        clock: Clock,
        partitions: int,
        retention: timedelta | None = None,
        group: str = "scheduler",
    ) -> None:
        super().__init__(
            topic, _request, broker=broker, store=store, clock=clock, max_records=_AT_ONCE, letters=letters
        )
        self._queue = queue
        self._queues = queues
        self._spec = TopicSpec(topic, partitions, Cleanup.DELETE, retention)
        self._group = group

    async def _open(self) -> Reader:
        await open_pagerduty_queue(self._queues, self._queue, self._clock)
        try:
            await self._broker.partitions(self._topic)
        except NotFoundError:
            await self._broker.create_topics([self._spec])
            log.info("tasks.topic_created", topic=self._topic, partitions=self._spec.partitions)
        return await super()._open()

    async def _store_batches(self, reader: Reader, batches: Sequence[IntakeBatch[TaskRequest]]) -> int:
        stored = await super()._store_batches(reader, batches)
        at = {TopicPartition(self._topic, batch.partition): self._positions[batch.partition] for batch in batches}
        await self._broker.report(self._group, at)
        return stored


def _request(record: Record) -> TaskRequest:
    """The task of a record, enqueued when its producer wrote it, as far as the record says so."""
    at = add_duration(_EPOCH, timedelta(milliseconds=record.time_ms)) if record.time_ms > 0 else None
    return replace(decode(record.value).request(), enqueued_at=at)
