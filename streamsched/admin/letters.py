"""Dead letters: what nobody could take, to look at, to send again, and to put away.

A letter is named by its place in topic `dead-letter`, `partition/offset`. The log forgets letters when they are older
than its retention; putting them away before that hides them, by a position in PostgreSQL.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import orjson

from streamsched.codec import event as event_codec
from streamsched.codec import signal as signal_codec
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.event import Event, Ticked
from streamsched.domain.home import home
from streamsched.domain.signal import Occurred
from streamsched.ports.broker import Broker, Outgoing, Record, TopicPartition
from streamsched.ports.records import records
from streamsched.ports.topics import DEAD_LETTER, PUBLIC, SIGNALS, public_topic


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter.

    Attributes:
        id: `partition/offset` of the letter.
        topic, partition, offset: where the record stood that nobody could read; `at` (UTC) is when it came there.
        path, reason: what is wrong in it, and where.
        key, value: as they were.
        cut: of a large record, how many bytes it had in key and value: these are only their beginnings.
    """

    id: str
    topic: str
    partition: int
    offset: int
    at: datetime
    path: str
    reason: str
    key: bytes | None
    value: bytes | None
    cut: int | None = None


class PutAway(Protocol):
    """Up to where letters are hidden."""

    async def hidden(self, topic: str) -> Mapping[int, int]:
        """For each partition the position below which they are; a partition without is missing."""
        ...

    async def hide(self, topic: str, positions: Mapping[int, int]) -> None:
        """Hides everything below these positions; never shows again what was hidden."""
        ...


async def letters(broker: Broker, away: PutAway, *, limit: int = 100) -> Sequence[Letter]:
    """The newest letters that are not put away, newest first.

    Raises:
        UnavailableError: log or PostgreSQL are away.
    """
    hidden = await away.hidden(DEAD_LETTER)
    at = [TopicPartition(DEAD_LETTER, number) for number in range(await broker.partitions(DEAD_LETTER))]
    ends = await broker.ends(at)
    found: list[Letter] = []
    for place in at:
        async for record in records(broker, place, start=hidden.get(place.partition, 0), end=ends[place]):
            found.append(_letter(place, record))
            if len(found) > 2 * limit:  # with what they hold, all of them may be more than fits
                found = _newest(found, limit)
    return _newest(found, limit)


async def letter(broker: Broker, name: str) -> Letter:
    """One letter by its id, put away or not.

    Raises:
        InvalidError: no such id can be.
        NotFoundError: there is no such letter (any more).
        UnavailableError: the log is away.
    """
    place, offset = _parsed(name)
    if place.partition >= await broker.partitions(DEAD_LETTER):
        raise NotFoundError("dead letter", name)
    end = (await broker.ends([place]))[place]
    async for record in records(broker, place, start=offset, end=min(offset + 1, end)):
        if record.offset == offset:
            return _letter(place, record)
    raise NotFoundError("dead letter", name)


async def replay(broker: Broker, one: Letter) -> TopicPartition:
    """Sends the record of a letter again: as it was, to where it stood; or, when it is an event that the home of its
    key could not take, as if it came anew. Returns that place. An event that was taken meanwhile is recognised by its
    id; a record that still cannot be taken becomes another letter.

    Raises:
        ConflictError: it stood in a topic of our own, where nothing may be repeated.
        NotFoundError: it was so large that its letter has only the beginning, and its topic does not keep it any more.
        UnavailableError: the log is away.
    """
    place = TopicPartition(one.topic, one.partition)
    key, value = one.key, one.value
    if one.cut is not None:
        key, value = await _whole(broker, place, one.offset)
    if one.topic not in PUBLIC:
        event = _event(one, key, value)
        place = TopicPartition(public_topic(event.fact), 0)
        place = place._replace(partition=home(event.key.encode(), await broker.partitions(place.topic)))
        key, value = event.key.encode(), event_codec.encode(event)
    await broker.append([Outgoing(*place, key, value)])
    return place


async def purge(broker: Broker, away: PutAway) -> int:
    """Puts all letters of this moment away; returns how many that were.

    Raises:
        UnavailableError: log or PostgreSQL are away.
    """
    hidden = await away.hidden(DEAD_LETTER)
    at = [TopicPartition(DEAD_LETTER, number) for number in range(await broker.partitions(DEAD_LETTER))]
    ends = await broker.ends(at)
    count = 0
    for place in at:
        async for _ in records(broker, place, start=hidden.get(place.partition, 0), end=ends[place]):
            count += 1
    await away.hide(DEAD_LETTER, {place.partition: ends[place] for place in at})
    return count


async def _whole(broker: Broker, place: TopicPartition, offset: int) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record that still stands in the log."""
    end = (await broker.ends([place]))[place]
    async for record in records(broker, place, start=offset, end=min(offset + 1, end)):
        if record.offset == offset:
            return record.key, record.value
    raise NotFoundError("record", f"{place.topic}/{place.partition}/{offset}")


def _event(one: Letter, key: bytes | None, value: bytes | None) -> Event:
    """The event that never got further than the home of its key."""
    refused = f"'{one.topic}' is no public topic: its records are part of turns and are never repeated"
    if one.topic != SIGNALS or key is None or value is None or key.startswith(b"schedule:"):
        raise ConflictError(refused)
    try:
        signal = signal_codec.decode(key, value)
    except InvalidError as exc:
        raise ConflictError(refused) from exc
    if not isinstance(signal, Occurred) or isinstance(signal.event.fact, Ticked):
        raise ConflictError(refused)
    return signal.event


def _parsed(name: str) -> tuple[TopicPartition, int]:
    partition, slash, offset = name.partition("/")
    if not (slash and partition.isdecimal() and offset.isdecimal()):
        raise InvalidError("$", f"'{name}' is no letter: write partition/offset, as `dlq list` does")
    return TopicPartition(DEAD_LETTER, int(partition)), int(offset)


def _newest(some: Iterable[Letter], limit: int) -> list[Letter]:
    return sorted(some, key=lambda letter: letter.at, reverse=True)[:limit]


def _letter(place: TopicPartition, record: Record) -> Letter:
    said: dict[str, Any] = orjson.loads(record.value or b"{}")
    key, value = said.get("key_b64"), said.get("value_b64")
    return Letter(
        f"{place.partition}/{record.offset}",
        said.get("topic", ""),
        said.get("partition", 0),
        said.get("offset", 0),
        datetime.fromtimestamp(said.get("time_ms", record.time_ms) / 1000, UTC),
        said.get("path", "$"),
        said.get("reason", ""),
        None if key is None else b64decode(key),
        None if value is None else b64decode(value),
        said.get("cut"),
    )


#: How many bytes of a record are shown.
SHOWN: Final = 2000


def to_json(one: Letter) -> dict[str, Any]:
    """A letter for people and programs: its bytes as text, shortened."""
    return {
        "id": one.id,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "at": one.at.isoformat(),
        "path": one.path,
        "reason": one.reason,
        "key": _shown(one.key),
        "value": _shown(one.value),
        **({} if one.cut is None else {"cut": one.cut}),
    }


def _shown(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    more = f"… ({len(raw)} bytes)" if len(raw) > SHOWN else ""
    return raw[:SHOWN].decode(errors="backslashreplace") + more
