"""Ready jobs as they travel on topic `launch`: `{"v": 1, …}`, each event once.

{"v": 1, "schedule": text, "generation": n, "sequence": n, "satisfied_at": instant,
 "key"?: text, "events": [native event, …], "contributions": [{"leaf": text, "count": n, "events": [place, …]}, …]}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.codec.native import dumps
from streamsched.codec.roll import Roll, called, read_roll
from streamsched.codec.scalar import instant, integer, loads, mapping, schedule, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.event import Event
from streamsched.domain.job import Contribution, ReadyJob
from streamsched.domain.names import ScheduleRef

VERSION: Final = 1


class Heading(NamedTuple):
    """Which satisfaction a record is, without its events."""

    schedule: ScheduleRef
    generation: int
    sequence: int
    satisfied_at: datetime


def encode(job: ReadyJob) -> bytes:
    """The job as bytes; equal jobs give equal bytes."""
    roll = Roll()
    contributions = [
        {"leaf": each.leaf, "count": each.count, "events": roll.places(each.events)} for each in job.contributions
    ]
    return dumps(
        {
            "v": VERSION,
            "schedule": str(job.schedule),
            "generation": job.generation,
            "sequence": job.sequence,
            "satisfied_at": job.satisfied_at,
            **({"key": job.key} if job.key else {}),
            "events": roll.to_json(),
            "contributions": contributions,
        }
    )


def decode(raw: bytes) -> ReadyJob:
    """The job that was encoded.

    Raises:
        DecodeError: these bytes are no job of a version we know.
    """
    found = _versioned(raw)
    roll = read_roll(found.get("events"), "$.events")
    listed = sequence(found.get("contributions"), "$.contributions")
    return ReadyJob(
        *_heading(found),
        tuple(_contribution(item, roll, f"$.contributions[{place}]") for place, item in enumerate(listed)),
        text(found["key"], "$.key") if "key" in found else "",
    )


def peek(raw: bytes) -> Heading:
    """What intake needs, at a ninth of the price of `decode`: no event is read.

    Raises:
        DecodeError: these bytes are no job of a version we know, as far as was looked.
    """
    found = _versioned(raw)
    sequence(found.get("events"), "$.events")
    sequence(found.get("contributions"), "$.contributions")
    return _heading(found)


def _versioned(raw: bytes) -> Mapping[str, object]:
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    return found


def _heading(found: Mapping[str, object]) -> Heading:
    return Heading(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        integer(found.get("sequence"), "$.sequence", minimum=1),
        instant(found.get("satisfied_at"), "$.satisfied_at"),
    )


def _contribution(value: object, roll: list[Event], path: str) -> Contribution:
    found = mapping(value, path)
    return Contribution(
        text(found.get("leaf"), f"{path}.leaf"),
        integer(found.get("count"), f"{path}.count"),
        called(found.get("events"), roll, f"{path}.events"),
    )
