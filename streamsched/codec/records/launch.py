"""Ready jobs as records of topic `launch`; each event is written once.

{"v": 1, "schedule": text, "generation": n, "sequence": n, "satisfied_at": instant,
 "key"?: text, "events": [native event, …], "contributions": [{"leaf": text, "count": n, "events": [index, …]}, …]}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.codec.events.event_table import EventTable, events_at, read_event_table
from streamsched.codec.events.native import dumps
from streamsched.codec.json.scalar import instant, integer, loads, mapping, schedule, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Event
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import ScheduleRef

VERSION: Final = 1


class LaunchHeader(NamedTuple):
    """The identity and time of a satisfaction, without its events."""

    schedule: ScheduleRef
    generation: int
    sequence: int
    satisfied_at: datetime


def encode(job: ReadyJob) -> bytes:
    """The job as bytes; equal jobs give equal bytes."""
    table = EventTable()
    contributions = [
        {"leaf": each.leaf, "count": each.count, "events": table.indexes(each.events)} for each in job.contributions
    ]
    return dumps(
        {
            "v": VERSION,
            "schedule": str(job.schedule),
            "generation": job.generation,
            "sequence": job.sequence,
            "satisfied_at": job.satisfied_at,
            **({"key": job.key} if job.key else {}),
            "events": table.to_json(),
            "contributions": contributions,
        }
    )


def decode(raw: bytes) -> ReadyJob:
    """Decodes a job.

    Raises:
        DecodeError: the bytes are not a job of a known version.
    """
    found = _versioned(raw)
    table = read_event_table(found.get("events"), "$.events")
    listed = sequence(found.get("contributions"), "$.contributions")
    return ReadyJob(
        *_header(found),
        tuple(_contribution(item, table, f"$.contributions[{index}]") for index, item in enumerate(listed)),
        text(found["key"], "$.key") if "key" in found else "",
    )


def peek(raw: bytes) -> LaunchHeader:
    """Decodes what intake needs, at a ninth of the cost of `decode`: events are not decoded.

    Raises:
        DecodeError: the header is not that of a job of a known version.
    """
    found = _versioned(raw)
    sequence(found.get("events"), "$.events")
    sequence(found.get("contributions"), "$.contributions")
    return _header(found)


def _versioned(raw: bytes) -> Mapping[str, object]:
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    return found


def _header(found: Mapping[str, object]) -> LaunchHeader:
    return LaunchHeader(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        integer(found.get("sequence"), "$.sequence", minimum=1),
        instant(found.get("satisfied_at"), "$.satisfied_at"),
    )


def _contribution(value: object, table: list[Event], path: str) -> Contribution:
    found = mapping(value, path)
    return Contribution(
        text(found.get("leaf"), f"{path}.leaf"),
        integer(found.get("count"), f"{path}.count"),
        events_at(found.get("events"), table, f"{path}.events"),
    )
