"""Dead letters: list, show, replay and archive records that could not be processed.

The id of a dead letter is its position in topic `dead-letter`, `partition/offset`. The log deletes them after its
retention time. Archiving hides older ones by a position stored in PostgreSQL.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Protocol

import orjson

from streamsched.catalog.paging import moment_cursor, page, read_moment_cursor
from streamsched.codec import event as event_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import any_text
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, describe_failure
from streamsched.domain.events.event import Event, Ticked
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred
from streamsched.log.records import records
from streamsched.log.topics import DEAD_LETTER, PUBLIC, SIGNALS, public_topic
from streamsched.ports.broker import Broker, Outgoing, Record, TopicPartition


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter.

    Attributes:
        id: `partition/offset` of the dead letter.
        topic, partition, offset: position of the original record; `at` (UTC) is when it was appended there, or when the
            dead letter was where that is no time.
        path, reason: where the error is, and what it is.
        key, value: of the original record.
        cut: size in bytes of a large original record, whose `key` and `value` are truncated here; otherwise None.
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


#: Largest number of bytes of a key or value in the JSON.
SHOWN: Final = 2000


def _text_of_bytes(raw: bytes) -> str:
    more = f"… ({len(raw)} bytes)" if len(raw) > SHOWN else ""
    return raw[:SHOWN].decode(errors="backslashreplace") + more


_BYTES: Final = About(shape=ByHand(keep_json, _text_of_bytes, any_text()))
#: Its bytes are texts, truncated to `SHOWN`.
LETTER: Final = JsonShape(
    DeadLetter,
    sometimes=("cut",),
    about={
        "id": About("0/17"),
        "topic": About("events.partitions"),
        "partition": About(0),
        "offset": About(17),
        "path": About("$.data.dataset"),
        "reason": About("must be text but is null"),
        "key": _BYTES,
        "value": _BYTES,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedLetters:
    """How many dead letters were archived."""

    purged: Annotated[int, About(3)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLetter:
    """Where the record of a dead letter was appended again."""

    id: Annotated[str, About("0/17")]
    topic: Annotated[str, About("events.partitions")]
    partition: Annotated[int, About(0)]


PURGED: Final = JsonShape(PurgedLetters, "Purged")
REPLAYED: Final = JsonShape(ReplayedLetter, "Replayed")


class ArchivedLetters(Protocol):
    """The positions below which dead letters are archived."""

    async def read_hidden(self, topic: str) -> Mapping[int, int]:
        """The position of each partition; partitions without one are missing."""
        ...

    async def hide(self, topic: str, positions: Mapping[int, int]) -> None:
        """Archives everything below these positions; positions never decrease."""
        ...


async def dead_letters(
    broker: Broker,
    archive: ArchivedLetters,
    *,
    limit: int = 100,
    before: tuple[datetime, str] | None = None,
    depth: int | None = None,
) -> Sequence[DeadLetter]:
    """The newest dead letters that are not archived, newest first; with `before`, only those that sort after the dead
    letter with this time and id; with `depth`, only the last `depth` of each partition are read.

    Raises:
        UnavailableError: the log or PostgreSQL is unreachable.
    """
    hidden = await archive.read_hidden(DEAD_LETTER)
    at = [TopicPartition(DEAD_LETTER, number) for number in range(await broker.partitions(DEAD_LETTER))]
    ends = await broker.ends(at)
    found: list[DeadLetter] = []
    for partition in at:
        start, end = hidden.get(partition.partition, 0), ends[partition]
        if depth is not None:
            start = max(start, end - depth)
        async for record in records(broker, partition, start=start, end=end):
            letter = _decode(partition, record)
            if before is not None and (letter.at, letter.id) >= before:
                continue
            found.append(letter)
            if len(found) > 2 * limit:  # bounds memory
                found = _newest_letters(found, limit)
    return _newest_letters(found, limit)


async def letters_page(broker: Broker, archive: ArchivedLetters, *, limit: int, after: str) -> dict[str, Any]:
    """A page of them as JSON, `{"letters", "next"?}`; `after` is `next` of the previous page, or empty.

    Raises:
        DecodeError: `after` is not a cursor.
        UnavailableError: the log or PostgreSQL is unreachable.
    """
    found = await dead_letters(broker, archive, limit=limit + 1, before=read_moment_cursor(after))
    return page("letters", found, limit, LETTER.write, lambda one: moment_cursor(one.at, one.id))


async def dead_letter(broker: Broker, name: str) -> DeadLetter:
    """One dead letter by its id, archived or not.

    Raises:
        InvalidError: the id is malformed.
        NotFoundError: no such dead letter, or it was deleted by retention.
        UnavailableError: the log is unreachable.
    """
    partition, offset = _parse_name(name)
    if partition.partition >= await broker.partitions(DEAD_LETTER):
        raise NotFoundError("dead letter", name)
    end = (await broker.ends([partition]))[partition]
    async for record in records(broker, partition, start=offset, end=min(offset + 1, end)):
        if record.offset == offset:
            return _decode(partition, record)
    raise NotFoundError("dead letter", name)


async def replay(broker: Broker, one: DeadLetter) -> TopicPartition:
    """Appends the original record again, unchanged and to its original partition; an event that failed at the home of
    its event key is appended to its public topic instead. Returns the partition. An event that was accepted meanwhile
    is recognised as a duplicate by its id; a record that fails again becomes a new dead letter. An event that one
    schedule refused is sent to that schedule alone and counts with each replay, because schedules do not dedupe.

    Raises:
        ConflictError: the record comes from an internal topic, whose records must not be repeated.
        NotFoundError: the dead letter is truncated, and the original record no longer exists.
        UnavailableError: the log is unreachable.
    """
    partition = TopicPartition(one.topic, one.partition)
    key, value = one.key, one.value
    if one.cut is not None:
        key, value = await _read_whole(broker, partition, one.offset)
    if one.topic == SIGNALS and key is not None and key.startswith(b"schedule:"):
        _event(one, key, value)
        partition = TopicPartition(SIGNALS, home(key, await broker.partitions(SIGNALS)))
    elif one.topic not in PUBLIC:
        event = _event(one, key, value)
        partition = TopicPartition(public_topic(event.fact), 0)
        partition = partition._replace(partition=home(event.key.encode(), await broker.partitions(partition.topic)))
        key, value = event.key.encode(), event_codec.encode(event)
    await broker.append([Outgoing(*partition, key, value)])
    return partition


async def purge(broker: Broker, archive: ArchivedLetters) -> int:
    """Archives all current dead letters; returns how many.

    Raises:
        UnavailableError: the log or PostgreSQL is unreachable.
    """
    hidden = await archive.read_hidden(DEAD_LETTER)
    at = [TopicPartition(DEAD_LETTER, number) for number in range(await broker.partitions(DEAD_LETTER))]
    ends = await broker.ends(at)
    count = 0
    for partition in at:
        async for _ in records(broker, partition, start=hidden.get(partition.partition, 0), end=ends[partition]):
            count += 1
    await archive.hide(DEAD_LETTER, {partition.partition: ends[partition] for partition in at})
    return count


async def _read_whole(broker: Broker, partition: TopicPartition, offset: int) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record.

    Raises:
        NotFoundError: the log no longer has it.
    """
    end = (await broker.ends([partition]))[partition]
    async for record in records(broker, partition, start=offset, end=min(offset + 1, end)):
        if record.offset == offset:
            return record.key, record.value
    raise NotFoundError("record", f"{partition.topic}/{partition.partition}/{offset}")


def _event(one: DeadLetter, key: bytes | None, value: bytes | None) -> Event:
    """The event of a signal that failed at the home of its event key or of a schedule.

    Raises:
        ConflictError: the record is not such a signal.
    """
    refused = f"'{one.topic}' is not a public topic: its records are part of turns and are never repeated"
    if one.topic != SIGNALS or key is None or value is None:
        raise ConflictError(refused)
    try:
        signal = signal_codec.decode(key, value)
    except InvalidError as exc:
        raise ConflictError(refused) from exc
    if not isinstance(signal, Occurred) or isinstance(signal.event.fact, Ticked):
        raise ConflictError(refused)
    return signal.event


def _parse_name(name: str) -> tuple[TopicPartition, int]:
    partition, slash, offset = name.partition("/")
    if not (slash and partition.isdecimal() and offset.isdecimal()):
        raise InvalidError(
            "$", f"'{name}' is not the id of a dead letter: use partition/offset, as printed by `dlq list`"
        )
    return TopicPartition(DEAD_LETTER, int(partition)), int(offset)


def _newest_letters(letters: Iterable[DeadLetter], limit: int) -> list[DeadLetter]:
    return sorted(letters, key=lambda letter: (letter.at, letter.id), reverse=True)[:limit]


def _decode(partition: TopicPartition, record: Record) -> DeadLetter:
    """The dead letter in a record. One that cannot be read is one too, without the position of what it was of: a record
    that something else wrote must not hide the others.
    """
    name = f"{partition.partition}/{record.offset}"
    try:
        return _read(name, orjson.loads(record.value or b"{}"), record)
    except (ValueError, TypeError, AttributeError) as exc:
        why = f"this dead letter cannot be read: {describe_failure(exc)}"
        return DeadLetter(name, "", 0, 0, record.at, "$", why, record.key, record.value)


def _read(name: str, fields: dict[str, Any], record: Record) -> DeadLetter:
    key, value = fields.get("key_b64"), fields.get("value_b64")
    original = record._replace(time_ms=int(fields.get("time_ms", record.time_ms)))
    return DeadLetter(
        name,
        str(fields.get("topic", "")),
        int(fields.get("partition", 0)),
        int(fields.get("offset", 0)),
        (original if original.is_stamped else record).at,
        fields.get("path", "$"),
        fields.get("reason", ""),
        None if key is None else b64decode(key),
        None if value is None else b64decode(value),
        fields.get("cut"),
    )
