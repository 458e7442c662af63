"""The homes of event keys: drop repeated events and forward each event to the schedules that listen to its key.

A repeat that brings the statistics for which a commit waits (`statistics_follow`) is forwarded too, once, as an
`Occurred` of statistics. The home knows what a commit waits for by two more ids beside that of its event (ADR 24).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import timedelta
from typing import Final, Protocol

import structlog

from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import subscriptions as subscriptions_codec
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.events.event import Event, PartitionsAdded, schedule_key
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred, Signal, Subscribe, Unsubscribe
from streamsched.domain.signals.subscription import SubscribedSchedule, Subscriptions, change_subscription
from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.emission import Emit, dead_letter, internal_error
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.stream.agents.verdict_collector import VerdictCollector
from streamsched.stream.dedupe.seen import Deduplicator, IdTable

log = structlog.get_logger()

#: Ends of the ids that say what became of the statistics of a commit. No id of an event has this character.
_AWAITED: Final = "\0awaited"
_CAME: Final = "\0came"


class Forward(Protocol):
    """Takes an event to the home of a schedule."""

    def __call__(self, home: int, schedule: bytes, value: bytes, signal: Occurred, time_ms: int) -> None:
        """`schedule`: its key; `value`: that of the signal; `time_ms`: the log time as of which the event is taken."""
        ...


class _Listeners:
    """Of one event key, by schedule: the subscription, and the (partition, record key) of its home."""

    __slots__ = ("destinations", "subscriptions")

    def __init__(self) -> None:
        self.subscriptions: dict[ScheduleRef, SubscribedSchedule] = {}
        self.destinations: dict[ScheduleRef, tuple[int, bytes]] = {}


#: Of every key without subscriptions; never changed.
_NO_LISTENERS: Final = _Listeners()


class EventHome:
    """The subscriptions and known event ids of one shard's event keys.

    An event is forwarded as the bytes in which it arrived, to the home of each listener, in order of subscription.
    """

    def __init__(
        self,
        *,
        shard: int,
        shards: int,
        subscriptions: MutableMapping[bytes, bytes],
        seen: IdTable,
        emit: Emit,
        decoder: SignalDecoder,
        forward: Forward,
        horizon: timedelta,
        collector: VerdictCollector | None = None,
    ) -> None:
        self._shard = shard
        self._shards = shards
        self._subscriptions = subscriptions
        self._emit = emit
        self._decoder = decoder
        self._forward = forward
        self._known_ids = Deduplicator(seen, horizon)
        self._collector = collector
        #: Decoded rows of the table. A key without a row has no entry: keys may name a run or a day.
        self._known: dict[bytes, _Listeners] = {}
        #: Event keys whose row has to be written; a dict for its order.
        self._changed: dict[bytes, None] = {}

    async def prepare(self) -> None:
        """Call it once when the tables have been restored: builds the index of known ids, yielding to the loop."""
        await self._known_ids.rebuild_index()

    @property
    def known_ids(self) -> int:
        """The number of known event ids."""
        return len(self._known_ids)

    def process(self, chunk: Chunk, record: Record) -> None:
        """Processes one signal of the chunk. A record that cannot be processed changes nothing and becomes a dead
        letter.
        """
        try:
            key, value = record.key, record.value
            if key is None or value is None:
                raise DecodeError("$", "is empty: a signal must have a key and a value")
            signal = self._decoder.decode(key, value)
            if not isinstance(signal, Occurred):
                self._control(key, signal)
            elif not signal.statistics:
                self.take(key, value, signal, record.time_ms)
        except InvalidError as error:
            dead_letter(self._emit, self._shard, chunk, record, error, collector=self._collector)
        except Exception as failure:
            log.exception("record.refused", topic=chunk.topic, partition=chunk.partition, offset=record.offset)
            dead_letter(self._emit, self._shard, chunk, record, internal_error(failure), collector=self._collector)

    def store(self) -> None:
        """Writes what changed since the last call: the row of each event key whose subscriptions changed, once however
        many changes there were, and the new ids.
        """
        for key in self._changed:
            listeners = self._known[key]
            if listeners.subscriptions:
                subscriptions = Subscriptions(key.decode(), listeners.subscriptions)
                self._subscriptions[key] = subscriptions_codec.encode(subscriptions)
            else:
                del self._known[key]
                if key in self._subscriptions:
                    del self._subscriptions[key]
        self._changed.clear()
        self._known_ids.flush()

    def take(self, key: bytes, value: bytes, signal: Occurred, time_ms: int) -> None:
        """Forwards an event to the schedules that listen to its key, unless it is a repeat. `value`: that of the
        signal; `time_ms`: the log time as of which it is taken.

        Raises:
            DecodeError: the subscriptions cannot be read; nothing has changed.
        """
        destinations = self._listeners(key).destinations  # may raise, so before the event is marked as seen
        event = signal.event
        fact = event.fact
        follow = type(fact) is PartitionsAdded and fact.statistics_follow
        first_ms = self._known_ids.first_seen_ms(key, event.id, event.source, time_ms)
        if first_ms is None and follow:
            self._known_ids.first_seen_ms(key, f"{event.id}{_AWAITED}", event.source, time_ms)
        elif first_ms is not None and self._brings_statistics(key, event, time_ms):
            value, signal, first_ms = signal_codec.statistics_of(value), signal._replace(statistics=True), None
        if first_ms is None:
            for partition, schedule in destinations.values():
                self._forward(partition, schedule, value, signal, time_ms)
            if not destinations and self._collector is not None:
                self._collector.no_listener(key, event.id, event.source)
        elif self._collector is not None:
            self._collector.duplicate(key, event.id, event.source, first_ms=first_ms)

    def _brings_statistics(self, key: bytes, event: Event, time_ms: int) -> bool:
        """Whether a repeat brings the statistics for which its commit waits, for the first time."""
        return (
            isinstance(event.fact, PartitionsAdded)
            and event.fact.has_statistics
            and self._known_ids.knows(key, f"{event.id}{_AWAITED}", event.source, time_ms)
            and self._known_ids.first_seen_ms(key, f"{event.id}{_CAME}", event.source, time_ms) is None
        )

    def _control(self, key: bytes, signal: Signal) -> None:
        """Applies one subscription change in memory; constant time, however many listeners the key has."""
        if not isinstance(signal, Subscribe | Unsubscribe):
            return
        schedule = signal.schedule
        listeners = self._listeners(key)
        before = listeners.subscriptions.get(schedule)
        after = change_subscription(before, signal)
        if after == before:
            return
        if after is None:
            del listeners.subscriptions[schedule], listeners.destinations[schedule]
        else:
            destination = self._destination(schedule, after.affinity)  # may raise, so before anything changes
            if listeners is _NO_LISTENERS:
                listeners = self._known[key] = _Listeners()
            listeners.subscriptions[schedule] = after
            listeners.destinations[schedule] = destination
        self._changed[key] = None

    def _listeners(self, key: bytes) -> _Listeners:
        known = self._known.get(key)
        if known is None:
            raw = self._subscriptions.get(key)
            if raw is None:
                return _NO_LISTENERS
            known = _Listeners()
            for schedule, subscription in subscriptions_codec.decode(key.decode(), raw).listeners.items():
                known.subscriptions[schedule] = subscription
                known.destinations[schedule] = self._destination(schedule, subscription.affinity)
            self._known[key] = known
        return known

    def _destination(self, schedule: ScheduleRef, affinity: int | None) -> tuple[int, bytes]:
        key = schedule_key(schedule, affinity).encode()
        return home(key, self._shards), key
