"""The relay: appends the records of the outbox to the log, each once (ADR 3).

Each commit also appends the ids of its outbox rows. After a crash between the commit and the deletion of the rows, the
next relay reads those ids from the log and deletes the rows instead of appending them again. The log fences a former
relay, so it cannot append any more. Ids that the database has never given away mean that it was restored from a backup
(ADR 3): then nothing is deleted, and new rows get greater ids.

A record that is too large for the log, or whose topic does not exist, does not block the others: it is logged and stays
in the outbox until a relay of a later process can append it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson
import structlog

from streamsched.domain.errors import NotFoundError, TooLargeError
from streamsched.domain.signals.home import home
from streamsched.log.records import newest
from streamsched.log.topics import RELAY_POSITION
from streamsched.ports.broker import Broker, Outgoing, TopicPartition, Writer
from streamsched.ports.notifier import OUTBOX, Notifier
from streamsched.ports.outbox import Outbox, PendingRecord
from streamsched.process.run_forever import run_forever

log = structlog.get_logger()

_WRITER: Final = "relay"
_KEY: Final = b"outbox"
_POSITION: Final = TopicPartition(RELAY_POSITION, 0)
#: Most records in one commit; the outbox bounds their bytes.
_BATCH: Final = 2000
#: Seconds between polls without a notification, and before a retry after a failure.
_SWEEP: Final = 5.0
_RETRY: Final = 1.0


class Relay:
    """Several instances are correct but fence each other, which wastes work: run it as a singleton role."""

    def __init__(self, *, broker: Broker, outbox: Outbox, notifier: Notifier) -> None:
        self._broker = broker
        self._outbox = outbox
        self._notifier = notifier
        self._writer: Writer | None = None
        self._partitions: dict[str, int] = {}
        self._batch_size = _BATCH
        self._skipped: list[int] = []

    async def run(self) -> None:
        """Relays until cancelled, on notification and every few seconds."""
        try:
            async with self._notifier.listen(OUTBOX) as subscription:
                await run_forever(self._step, sleep=subscription.wait, called="relay", retry_s=_RETRY)
        finally:
            await self.close()

    async def run_once(self) -> int:
        """Appends one batch and deletes it from the outbox. Returns the number of records; 0 when there were none.

        A batch that is too large for one commit is halved, until a single too large record is skipped. After any
        exception the next call opens a new writer and reads from the log what was appended.

        Raises:
            FencedError: another relay has taken over.
            UnavailableError: the log or PostgreSQL is unreachable.
        """
        pending: Sequence[PendingRecord] = ()
        while True:
            try:
                writer = self._writer or await self._open()
                pending = await self._outbox.list_pending(limit=self._batch_size, beside=self._skipped)
                if not pending:
                    return 0
                without_topic = await self._without_topic(pending)
                if without_topic:
                    self._skipped += without_topic
                    continue
                ids = [record.id for record in pending]
                await writer.commit([*self._to_append(pending), _to_outgoing(ids)])
                await self._outbox.forget(ids)
            except TooLargeError as exc:
                await self.close()
                self._reduce_batch(pending, exc)
            except BaseException:
                await self.close()
                raise
            else:
                self._batch_size = min(2 * self._batch_size, _BATCH)
                log.debug("outbox.relayed", records=len(ids), last=ids[-1])
                return len(ids)

    async def close(self) -> None:
        """Closes the writer; the next `run_once` opens a new one."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()

    async def _step(self) -> float:
        return 0.0 if await self.run_once() else _SWEEP

    def _reduce_batch(self, refused: Sequence[PendingRecord], exc: TooLargeError) -> None:
        self._batch_size = max(1, len(refused) // 2)
        if len(refused) == 1:
            (record,) = refused
            self._skipped.append(record.id)
            log.error("outbox.too_large", id=record.id, topic=record.topic, key=record.key, reason=str(exc))

    async def _open(self) -> Writer:
        """Opens a writer, which fences former relays, and then deletes the rows they have appended."""
        self._writer = await self._broker.writer(_WRITER)
        newest_batch = await newest(self._broker, _POSITION, _KEY)
        appended = [] if newest_batch is None else orjson.loads(newest_batch)["sent"]
        if appended and await self._outbox.advance(max(appended)):
            # Rows with these ids are of the restored database, not the ones that were appended (ADR 3).
            log.warning("relay.database_restored", last=max(appended))
            appended = []
        if appended:
            await self._outbox.forget(appended)
        self._partitions.clear()
        log.info("relay.taken", forgotten=len(appended))
        return self._writer

    async def _without_topic(self, pending: Sequence[PendingRecord]) -> list[int]:
        """Ids of the records whose topic does not exist; they are skipped."""
        missing: set[str] = set()
        for topic in {record.topic for record in pending} - self._partitions.keys():
            try:
                self._partitions[topic] = await self._broker.partitions(topic)
            except NotFoundError as exc:
                missing.add(topic)
                log.error("outbox.no_topic", topic=topic, reason=str(exc))
        return [record.id for record in pending if record.topic in missing]

    def _to_append(self, pending: Sequence[PendingRecord]) -> list[Outgoing]:
        return [
            Outgoing(topic, home(key, self._partitions[topic]), key.encode(), value) for _, topic, key, value in pending
        ]


def _to_outgoing(ids: Sequence[int]) -> Outgoing:
    return Outgoing(RELAY_POSITION, 0, _KEY, orjson.dumps({"sent": ids}))
