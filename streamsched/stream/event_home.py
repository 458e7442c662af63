"""Second station, an event key's home: has this event been seen, and which schedules listen to its key?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import MutableMapping
from datetime import timedelta
from typing import Final, NamedTuple

import structlog

from streamsched.codec import signal as signal_codec
from streamsched.codec import subscriptions as subscriptions_codec
from streamsched.codec.event import LOG_ID
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.event import schedule_key
from streamsched.domain.home import home
from streamsched.domain.subscription import Subscriptions, route
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import SIGNALS
from streamsched.stream.emission import Emit, dead_letter, unforeseen
from streamsched.stream.ledger import Ledger
from streamsched.stream.memo import Memo
from streamsched.stream.schedule_home import SCHEDULE_PREFIX

log = structlog.get_logger()

SEPARATOR: Final = b"\x1f"

#: At most this many old ids are forgotten for each id that is new, so that forgetting keeps up and never floods a turn.
_FORGET_PER_NEW: Final = 2
#: After so many ids that were read back, others have their turn.
_RECALLED: Final = 5_000


class _Known(NamedTuple):
    """The subscriptions of one key, and where its events go: (home, record key) of each listener."""

    subscriptions: Subscriptions | None
    forward: tuple[tuple[int, bytes], ...]


_UNHEARD: Final = _Known(None, ())


class EventHome:
    """The subscriptions and seen ids of one shard's event keys. The tables' bytes are the truth, the rest is derived.

    An event goes on as the very bytes it came in, to the home of each listener, in order.
    """

    def __init__(
        self,
        *,
        shard: int,
        shards: int,
        subscriptions: MutableMapping[bytes, bytes],
        seen: MutableMapping[bytes, bytes],
        emit: Emit,
        memo: Memo,
        horizon: timedelta,
        ledger: Ledger | None = None,
    ) -> None:
        self._shard = shard
        self._shards = shards
        self._subscriptions = subscriptions
        self._emit = emit
        self._memo = memo
        self._seen = Seen(seen, horizon)
        self._ledger = ledger
        self._known: dict[bytes, _Known] = {}

    async def recovered(self) -> None:
        """The tables have been read back; what is derived from all of them at once is derived now, with pauses."""
        await self._seen.recall()

    def take(self, chunk: Chunk) -> None:
        """Takes the chunk's signals for event keys in order; those for schedules are another station's. One that
        cannot be taken has changed nothing, becomes a dead letter and stops nobody.
        """
        for record in chunk.records:
            key = record.key
            if key is not None and key.startswith(SCHEDULE_PREFIX):
                continue
            try:
                self._signal(key, record)
            except InvalidError as error:
                dead_letter(self._emit, self._shard, chunk, record, error, ledger=self._ledger)
            except Exception as failure:
                log.exception("record.refused", topic=chunk.topic, partition=chunk.partition, offset=record.offset)
                dead_letter(self._emit, self._shard, chunk, record, unforeseen(failure), ledger=self._ledger)
        if self._ledger is not None:
            self._ledger.close()

    def _signal(self, key: bytes | None, record: Record) -> None:
        value = record.value
        if key is None or value is None:
            raise DecodeError("$", "is empty: a signal must have a key and say something")
        decoded = self._memo.get(value)
        identity = (decoded.event.id, decoded.event.source) if decoded is not None else signal_codec.identity(value)
        if identity is None:
            self._control(key, value)
            return
        forward = self._listeners(key).forward  # asked first: once it is seen, nothing may go wrong any more
        first_ms = self._seen.sighted(key, *identity, record.time_ms)
        if first_ms is None:
            for partition, schedule in forward:
                self._emit(SIGNALS, partition, schedule, value)
            if not forward and self._ledger is not None:
                self._ledger.unheard(key, *identity)
        elif self._ledger is not None:
            self._ledger.repeated(key, *identity, first_ms=first_ms)

    def _control(self, key: bytes, value: bytes) -> None:
        signal = signal_codec.decode(key, value)
        before = self._listeners(key).subscriptions
        after = route(before, signal)
        if after is before:
            return
        derived, row = self._derived(after), None if after is None else subscriptions_codec.encode(after)
        if row is not None:
            self._known[key] = derived
            self._subscriptions[key] = row
        else:
            del self._known[key]
            del self._subscriptions[key]

    def _listeners(self, key: bytes) -> _Known:
        known = self._known.get(key)
        if known is None:
            raw = self._subscriptions.get(key)
            if raw is None:  # nothing is kept of it: keys that name a run or a day would fill the memory
                return _UNHEARD
            known = self._known[key] = self._derived(subscriptions_codec.decode(key.decode(), raw))
        return known

    def _derived(self, subscriptions: Subscriptions | None) -> _Known:
        if subscriptions is None:
            return _UNHEARD
        keys = [schedule_key(schedule).encode() for schedule in subscriptions.listeners]
        return _Known(subscriptions, tuple((home(key, self._shards), key) for key in keys))


class Seen:
    """Which events were seen within the horizon: event key ␟ source ␟ id → log time of the first sighting, in ms.

    Old entries go as new ones come, judged by log time alone, so that a replay forgets what the first pass forgot.
    """

    def __init__(self, table: MutableMapping[bytes, bytes], horizon: timedelta) -> None:
        self._table = table
        self._horizon_ms = int(horizon.total_seconds() * 1000)
        self._oldest_first: deque[tuple[int, bytes]] | None = None

    async def recall(self) -> None:
        """Puts what the table holds in order. Millions of ids take seconds, in which the worker must go on beating; a
        changelog is nearly in order already, and then sorting takes little of that.
        """
        ages: list[tuple[int, bytes]] = []
        for nth, (entry, time) in enumerate(self._table.items(), 1):
            ages.append((int(time), entry))
            if nth % _RECALLED == 0:
                await asyncio.sleep(0)
        ages.sort()
        self._oldest_first = deque(ages)

    def sighted(self, key: bytes, event_id: str, source: str, time_ms: int) -> int | None:
        """When an event that is a repeat was seen first; None when it is new, and it is remembered. One whose id was
        made from its place in the log is always new.
        """
        if event_id.startswith(LOG_ID):
            return None
        entry = SEPARATOR.join((key, source.encode(), event_id.encode()))
        known = self._table.get(entry)
        if known is not None and (first_ms := int(known)) > time_ms - self._horizon_ms:
            return first_ms
        self._remember(entry, time_ms)
        return None

    def _remember(self, entry: bytes, time_ms: int) -> None:
        ages = self._ages() if self._oldest_first is None else self._oldest_first
        if ages and ages[0][0] <= time_ms - self._horizon_ms:
            self._forget(ages, time_ms - self._horizon_ms)
        self._table[entry] = b"%d" % time_ms
        ages.append((time_ms, entry))

    def _forget(self, ages: deque[tuple[int, bytes]], gone: int) -> None:
        for _ in range(_FORGET_PER_NEW):
            if not ages or ages[0][0] > gone:
                break
            time, old = ages.popleft()
            if self._table.get(old) == b"%d" % time:  # else it was seen again since
                del self._table[old]

    def _ages(self) -> deque[tuple[int, bytes]]:
        if self._oldest_first is None:
            self._oldest_first = deque(sorted((int(time), entry) for entry, time in self._table.items()))
        return self._oldest_first
