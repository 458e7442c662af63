"""Events as the log has them: of the public topics, and of one event key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Final, assert_never

from streamsched.api.reads.log_tail import LogSearch, TailRecord
from streamsched.codec import event as event_codec
from streamsched.codec.events.native import LOG_ID
from streamsched.codec.records import judged as judged_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred
from streamsched.log.topics import JUDGED, SIGNALS
from streamsched.ports.broker import Record, TopicPartition

#: Characters of a text, and partitions or attributes that it names.
_LONGEST: Final = 500
_NAMED: Final = 5


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

    @property
    def what(self) -> str | None:
        """What happened, in a few words."""
        return None if self.event is None else _what(self.event.fact)


@dataclass(frozen=True, slots=True)
class EventTail:
    """The newest events, newest first. `searched`: records that were read; `whole`: the log has no older ones."""

    events: tuple[LoggedEvent, ...]
    searched: int
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEvent:
    """A record of a public topic, as lists show it."""

    id: Annotated[str, About("e1")]
    source: Annotated[str, About("feeds")]
    at: datetime
    position: Annotated[str, About("partitions/0/17")]
    time: Annotated[datetime | None, About(of="event.time")]
    key: Annotated[str | None, About(of="event.key")]
    what: str | None
    problem: Annotated[str | None, About(blank=True)]


EVENT_LIST: Final = JsonShape(
    EventTail,
    "EventList",
    about={
        "events": About(shape=JsonShape(ListedEvent)),
        "searched": About(1000),
        "whole": About(False, name="searchedAll"),
    },
)


def logged_event(found: TailRecord) -> LoggedEvent:
    """The event that a record of a public topic is."""
    raw = found.record.value or b""
    position = f"{LOG_ID}{found.name}"
    try:
        event = event_codec.decode(raw, fallback_id=position, fallback_time=found.appended)
    except DecodeError as error:
        name, source = event_codec.find_identity(raw) or (position, "")
        return LoggedEvent(found.name, found.appended, name, source, None, str(error)[:_LONGEST], raw)
    return LoggedEvent(found.name, found.appended, event.id, event.source, event, "", raw)


async def newest_events(search: LogSearch, topics: Sequence[str], *, depth: int, text: str, limit: int) -> EventTail:
    """The newest events of these topics whose record contains `text`, in any case, among the last `depth` records of
    each partition.

    Raises:
        UnavailableError: the log is unavailable.
    """
    partitions = [
        TopicPartition(topic, number) for topic in topics for number in range(await search.broker.partitions(topic))
    ]
    tail = await search.tail(partitions, depth=depth, wanted=text_filter(text) if text else None, most=limit)
    found = [logged_event(each) for each in tail.records[:limit]]
    return EventTail(tuple(found), tail.searched, tail.whole)


async def events_of_key(search: LogSearch, key: str, *, depth: int, limit: int) -> EventTail:
    """The newest events of an event key, among the last `depth` records of its home. They are in topic `signals`, or in
    `judged`: each event once, whatever partition its emitter chose.

    Raises:
        UnavailableError: the log is unavailable.
    """
    at = home(key, await search.broker.partitions(SIGNALS))
    places = [TopicPartition(topic, at) for topic in (SIGNALS, JUDGED)]
    wanted = key.encode()
    tail = await search.tail(places, depth=depth, wanted=lambda record: record.key == wanted)
    found = await asyncio.to_thread(_signalled_events, tail.records, limit)
    return EventTail(tuple(found), len(tail.records), tail.whole)


def text_filter(text: str) -> Callable[[Record], bool]:
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


def _signalled_events(records: Sequence[TailRecord], limit: int) -> list[LoggedEvent]:
    return list(islice(filter(None, map(signalled_event, records)), limit))


def _what(fact: Fact) -> str:
    match fact:
        case PartitionsAdded(partitions=named, count=count):
            keys = ", ".join(each.key for each in named[:_NAMED])
            return (f"{count} partition{'' if count == 1 else 's'}" + (f": {keys}" if keys else ""))[:_LONGEST]
        case StreamSize(bytes=size, absolute=absolute):
            return f"{size} bytes" if absolute else f"{size} bytes more"
        case ProgramReached(run_id=run, outcome=outcome):
            return f"{outcome}: {run}"[:_LONGEST]
        case CustomHappened(attributes=attributes):
            return ", ".join(f"{name}={value}" for name, value in [*attributes.items()][:_NAMED])[:_LONGEST]
        case Ticked(due_at=due_at):
            return f"tick of {due_at.isoformat()}"
        case _:
            assert_never(fact)
