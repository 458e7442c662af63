"""The relay: appends what changes wrote to the outbox to the log, each record once (ADR 0002).

The ids of the records it appended last travel in the log, in the same commit. So whatever dies between the log's commit
and the deletion of the rows, the next relay finds in the log which rows it must delete instead of append. A former
relay that wakes up is fenced by the log before it can append anything again.

A record that is larger than the log takes holds up no other: it is told of and stays in the outbox, until a relay of a
later process finds that the log takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson
import structlog

from streamsched.attendance import attend
from streamsched.domain.errors import TooLargeError
from streamsched.domain.home import home
from streamsched.ports.bell import OUTBOX, Bell
from streamsched.ports.broker import Broker, Outgoing, TopicPartition, Writer
from streamsched.ports.outbox import Outbox, PendingRecord
from streamsched.ports.records import newest
from streamsched.ports.topics import RELAY_POSITION

log = structlog.get_logger()

_WRITER: Final = "relay"
_KEY: Final = b"outbox"
_POSITION: Final = TopicPartition(RELAY_POSITION, 0)
#: Records for one commit.
_BATCH: Final = 500
#: Seconds between looks when no bell rings, and before another try after a failure.
_SWEEP: Final = 5.0
_AGAIN: Final = 1.0


class Relay:
    """Any number may run and stay correct, but they fence each other and waste their time: run it as a part."""

    def __init__(self, *, broker: Broker, outbox: Outbox, bell: Bell) -> None:
        self._broker = broker
        self._outbox = outbox
        self._bell = bell
        self._writer: Writer | None = None
        self._partitions: dict[str, int] = {}
        self._most = _BATCH
        self._beside: list[int] = []

    async def run(self) -> None:
        """Relays until cancelled, woken by the bell, or looking by itself every few seconds."""
        try:
            async with self._bell.listen(OUTBOX) as ring:
                await attend(self._look, rest=ring.wait, called="relay", again_s=_AGAIN)
        finally:
            await self.close()

    async def run_once(self) -> int:
        """Appends one batch and forgets it. Returns how many records that were; 0 when there were none.

        A batch that the log does not take at once is halved, down to the one record that it never takes. After any
        exception the log decides what was done: the next call opens a new writer and reads it there.

        Raises:
            FencedError: another relay has taken over.
            UnavailableError: log or PostgreSQL are away.
        """
        pending: Sequence[PendingRecord] = ()
        while True:
            try:
                writer = self._writer or await self._open()
                pending = await self._outbox.pending(limit=self._most, beside=self._beside)
                if not pending:
                    return 0
                ids = [record.id for record in pending]
                await writer.commit([*(await self._addressed(pending)), _sent(ids)])
                await self._outbox.forget(ids)
            except TooLargeError as exc:
                await self.close()
                self._take_fewer(pending, exc)
            except BaseException:
                await self.close()
                raise
            else:
                self._most = min(2 * self._most, _BATCH)
                log.debug("outbox.relayed", records=len(ids), last=ids[-1])
                return len(ids)

    async def close(self) -> None:
        """Gives the writer up; the next `run_once` opens another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()

    async def _look(self) -> float:
        return 0.0 if await self.run_once() else _SWEEP

    def _take_fewer(self, refused: Sequence[PendingRecord], exc: TooLargeError) -> None:
        self._most = max(1, len(refused) // 2)
        if len(refused) == 1:
            (record,) = refused
            self._beside.append(record.id)
            log.error("outbox.too_large", id=record.id, topic=record.topic, key=record.key, reason=str(exc))

    async def _open(self) -> Writer:
        """Fences former relays first, so that what the log says about them then is final."""
        self._writer = await self._broker.writer(_WRITER)
        newest_batch = await newest(self._broker, _POSITION, _KEY)
        appended = [] if newest_batch is None else orjson.loads(newest_batch)["sent"]
        if appended:
            await self._outbox.forget(appended)
        self._partitions.clear()
        log.info("relay.taken", forgotten=len(appended))
        return self._writer

    async def _addressed(self, pending: Sequence[PendingRecord]) -> list[Outgoing]:
        for topic in {record.topic for record in pending} - self._partitions.keys():
            self._partitions[topic] = await self._broker.partitions(topic)
        return [
            Outgoing(topic, home(key, self._partitions[topic]), key.encode(), value) for _, topic, key, value in pending
        ]


def _sent(ids: Sequence[int]) -> Outgoing:
    return Outgoing(RELAY_POSITION, 0, _KEY, orjson.dumps({"sent": ids}))
