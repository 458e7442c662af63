"""The position of a watcher of a topic, as its bookmark keeps it: what has been counted, and the event that may not
have been sent yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.topic_growth import CountedPartition, CountedTopic, PartitionSize

#: Numbers kept for each partition.
_NUMBERS: Final = 7


class StreamMeasure(StrEnum):
    """What a watcher of a topic counts: bytes of one copy on disk, or records by their offsets."""

    BYTES = "bytes"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class UnsentGrowth:
    """An event that is to be sent: its id, and by how much the stream has grown, in the measure of the watcher."""

    event_id: str
    amount: int


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """What a bookmark of a topic keeps. `unsent` is part of what has been counted."""

    topic: str
    measure: StreamMeasure
    counted: CountedTopic
    unsent: UnsentGrowth | None = None

    def text(self) -> str:
        """The bookmark's value: JSON."""
        partitions = [
            (number, *_measures_of(each.last), each.sample_bytes, each.sample_records)
            for number, each in sorted(self.counted.partitions.items())
        ]
        value: dict[str, Any] = {
            "topic": self.topic,
            "measure": self.measure.value,
            "id": self.counted.id,
            "partitions": partitions,
        }
        if self.unsent is not None:
            value["unsent"] = {"event": self.unsent.event_id, "amount": self.unsent.amount}
        return orjson.dumps(value).decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the bookmark's value.

        Raises:
            DecodeError: it is none of a topic.
        """
        fields = Fields(loads(text.encode(), "$"))
        topic, measure, name = fields.text("topic"), fields.choice("measure", StreamMeasure), fields.text("id")
        counted = CountedTopic(name, dict(_partition(row, path) for row, path in fields.list("partitions")))
        unsent = fields.optional_object("unsent")
        return cls(topic, measure, counted, None if unsent is None else _read_unsent(unsent))


def _partition(row: Any, path: str) -> tuple[int, CountedPartition]:
    if not isinstance(row, list) or len(row) != _NUMBERS or not all(type(each) is int for each in row):
        raise DecodeError(path, f"must be {_NUMBERS} numbers")
    number, copy, start, end, size, sample_bytes, sample_records = row
    return number, CountedPartition(PartitionSize(copy, start, end, size), sample_bytes, sample_records)


def _measures_of(last: PartitionSize) -> tuple[int, int, int, int]:
    return last.copy, last.start, last.end, last.size


def _read_unsent(fields: Fields) -> UnsentGrowth:
    return UnsentGrowth(fields.text("event"), fields.integer("amount"))
