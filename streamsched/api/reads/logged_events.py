"""Events as the log has them: of the public topics, and of one event key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from streamsched.api.reads.log_tail import TailRecord, log_tail
from streamsched.codec import event as event_codec
from streamsched.codec.events.native import LOG_ID
from streamsched.codec.records import judged as judged_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.events.event import Event, Fact
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred
from streamsched.log.topics import JUDGED, SIGNALS
from streamsched.ports.broker import Broker, Record, TopicPartition


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A record of a public topic.

    Attributes:
        position: `topic/partition/offset`.
        at: when the log appended it, UTC.
        event: None when it cannot be read; then `problem` says why, and `id` and `source` what can be read of them.
    """

    position: str
    at: datetime
    id: str
    source: str
    event: Event | None
    problem: str
    raw: bytes

    @property
    def fact(self) -> Fact | None:
        return None if self.event is None else self.event.fact


@dataclass(frozen=True, slots=True)
class EventTail:
    """The newest events, newest first. `searched`: records that were read; `whole`: the log has no older ones."""

    events: tuple[LoggedEvent, ...]
    searched: int
    whole: bool


def logged_event(found: TailRecord) -> LoggedEvent:
    """The event that a record of a public topic is."""
    raw = found.record.value or b""
    position = f"{LOG_ID}{found.name}"
    try:
        event = event_codec.decode(raw, fallback_id=position, fallback_time=found.appended)
    except DecodeError as error:
        name, source = event_codec.find_identity(raw) or (position, "")
        return LoggedEvent(found.name, found.appended, name, source, None, str(error), raw)
    return LoggedEvent(found.name, found.appended, event.id, event.source, event, "", raw)


async def newest_events(broker: Broker, topics: Sequence[str], *, depth: int, text: str, limit: int) -> EventTail:
    """The newest events of these topics whose record contains `text`, in any case, among the last `depth` records of
    each partition.

    Raises:
        UnavailableError: the log is unavailable.
    """
    partitions = [TopicPartition(topic, number) for topic in topics for number in range(await broker.partitions(topic))]
    tail = await log_tail(broker, partitions, depth=depth, wanted=containing(text) if text else None, most=limit)
    found = [logged_event(each) for each in tail.records[:limit]]
    return EventTail(tuple(found), tail.searched, tail.whole)


async def events_of_key(broker: Broker, key: str, *, depth: int, limit: int) -> EventTail:
    """The newest events of an event key, among the last `depth` records of its home. They are in topic `signals`, or in
    `judged`: each event once, whatever partition its emitter chose.

    Raises:
        UnavailableError: the log is unavailable.
    """
    at = home(key, await broker.partitions(SIGNALS))
    places = [TopicPartition(topic, at) for topic in (SIGNALS, JUDGED)]
    wanted = key.encode()
    tail = await log_tail(broker, places, depth=depth, wanted=lambda record: record.key == wanted)
    found = await asyncio.to_thread(_signalled, tail.records, limit)
    return EventTail(tuple(found), len(tail.records), tail.whole)


def containing(text: str) -> Callable[[Record], bool]:
    """Whether a record contains a text, in any case."""
    wanted = text.casefold()
    in_ascii = wanted.encode() if wanted.isascii() else None

    def contains(record: Record) -> bool:
        value = record.value or b""
        if value.isascii():
            return in_ascii is not None and in_ascii in value.lower()
        return wanted in value.decode(errors="replace").casefold()

    return contains


def signalled_event(found: TailRecord) -> LoggedEvent | None:
    """The event of a record of `signals` or `judged`; None when it is another signal, or none."""
    key, value = found.record.key, found.record.value
    if key is None or value is None:
        return None
    try:
        value = judged_codec.decode(value)[1] if found.at.topic == JUDGED else value
        signal = signal_codec.decode(key, value)
    except InvalidError:
        return None
    if not isinstance(signal, Occurred):
        return None
    event, raw = signal.event, signal_codec.split_logged(value)[1]
    return LoggedEvent(found.name, found.appended, event.id, event.source, event, "", raw)


def _signalled(records: Sequence[TailRecord], limit: int) -> list[LoggedEvent]:
    return list(islice(filter(None, map(signalled_event, records)), limit))
