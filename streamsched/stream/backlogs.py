"""Which records of a partition a shard takes first: no namespace holds up the others (ADR 42).

A shard takes the records of a partition in their order, as long as each namespace has no more of them in a read than
its share. One that has more gets a *backlog*: a position of its own in the partition, from which its records are taken
turn by turn, while the shard goes on with those of the others. Records of one namespace are always taken in their
order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from streamsched.codec import event as event_codec
from streamsched.codec.json.scalar import integer, loads, mapping
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.events.event import namespace_of
from streamsched.ports.broker import Chunk, Record, TopicPartition

#: Backlogs of one partition; more namespaces than that wait for one another. Each reads the partition again.
MOST: Final = 8
#: Of the format, and of `namespace`: a record that is of another namespace than before would be taken twice or never.
VERSION: Final = 1
_NAMED: Final = re.compile(rb"[a-z]+:([\w-]{1,255})\.")


def namespace(record: Record) -> str:
    """Whose record of a public topic it is: by its key, `partition:default.flights`, which the API and the emitters
    set; else by its event; empty when it has none.
    """
    if named := _NAMED.match(record.key or b""):
        return named[1].decode()
    try:
        return namespace_of(event_codec.decode(record.value or b"", fallback_id="-", fallback_time=record.at).fact)
    except (InvalidError, RecursionError):
        return ""


def fair_share(counts: Mapping[str, int], room: int) -> int:
    """The most records of one namespace, so that all together have about `room`: who has fewer leaves the rest to the
    others.
    """
    left = room
    for nth, count in enumerate(sorted(counts.values())):
        share = left // (len(counts) - nth)
        if count > share:
            return max(1, share)
        left -= count
    return room


@dataclass(slots=True)
class Backlogs:
    """Of one partition.

    Attributes:
        next: every record before it is taken but those of `positions`.
        positions: by namespace where its backlog goes on, at most `next`.
        since: the log times of the first records of backlogs, in milliseconds, of those that are stamped; not stored.
    """

    next: int
    positions: dict[str, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict, compare=False)

    @property
    def start(self) -> int:
        """Every record before it is taken."""
        return min(self.positions.values(), default=self.next)

    def is_taken(self, record: Record) -> bool:
        """Whether a record at or after `start` is taken."""
        if record.offset >= self.next:
            return False
        position = self.positions.get(namespace(record))
        return position is None or record.offset < position

    def take_next(self, chunk: Chunk, room: int) -> Chunk:
        """The records of a chunk at `next` that are taken now, about `room`; a namespace that has more than its share
        has a backlog from there on.
        """
        self.next = chunk.next_position
        named = [(namespace(record), record) for record in chunk.records]
        counts = Counter(name for name, _ in named if name not in self.positions)
        share = fair_share(counts, room)
        large = {name for name, count in counts.most_common(MOST - len(self.positions)) if count > share}
        return chunk._replace(records=list(self._take(named, share, large)))

    def _take(self, named: Sequence[tuple[str, Record]], share: int, large: set[str]) -> Iterator[Record]:
        taken: Counter[str] = Counter()
        for name, record in named:
            if name in self.positions:
                continue
            if name in large and taken[name] == share:
                self._wait(name, record.offset, record)
            else:
                taken[name] += 1
                yield record

    def take_behind(self, name: str, chunk: Chunk) -> Chunk:
        """The records of a chunk at the position of a backlog that are its own. When it has reached `next`, it is no
        more.
        """
        if chunk.next_position >= self.next:
            del self.positions[name]
            self.since.pop(name, None)
        else:
            self._wait(name, chunk.next_position, *chunk.records[-1:])
        found = [each for each in chunk.records if each.offset < self.next and namespace(each) == name]
        return chunk._replace(records=found, next_position=min(chunk.next_position, self.next))

    def _wait(self, name: str, position: int, *latest: Record) -> None:
        """A backlog goes on at this position; `latest`: the record there or before, which may have no time."""
        self.positions[name] = position
        for record in latest:
            if record.is_stamped:
                self.since[name] = record.time_ms

    def take_in_order(self, position: int) -> None:
        """Every record before `position` is taken."""
        self.next = max(self.next, position)
        kept = {name: max(at, position) for name, at in self.positions.items()}
        self.positions = {name: at for name, at in kept.items() if at < self.next}
        self.since = {name: since for name, since in self.since.items() if name in self.positions}


def encode(backlogs: Mapping[TopicPartition, Backlogs]) -> bytes | None:
    """Those of a shard, for its changelog; None without any."""
    found = [
        {"topic": at.topic, "partition": at.partition, "next": each.next, "positions": each.positions}
        for at, each in sorted(backlogs.items())
        if each.positions
    ]
    return orjson.dumps({"v": VERSION, "backlogs": found}) if found else None


def decode(raw: bytes | None) -> dict[TopicPartition, Backlogs]:
    """What `encode` made. Of another version there are none: then records that were taken come again, and their ids are
    known.

    Raises:
        DecodeError: the bytes are not that.
    """
    if raw is None:
        return {}
    read = mapping(loads(raw), "$")
    if read.get("v") != VERSION:
        return {}
    try:
        return {TopicPartition(each["topic"], each["partition"]): _backlogs(each) for each in read["backlogs"]}
    except (KeyError, TypeError, AttributeError) as exc:
        raise DecodeError("$", f"not the backlogs of a shard: {str(read)[:80]!r}") from exc


def _backlogs(read: Mapping[str, Any]) -> Backlogs:
    return Backlogs(
        integer(read["next"], "$.next"), {name: integer(at, "$.positions") for name, at in read["positions"].items()}
    )
