"""Ready jobs as they travel on topic `launch`: `{"v": 1, …}`, each event once.

{"v": 1, "schedule": text, "generation": n, "sequence": n, "satisfied_at": instant,
 "events": [native event, …], "contributions": [{"leaf": text, "count": n, "events": [place, …]}, …]}
"""

from __future__ import annotations

from typing import Final

from streamsched.codec.native import dumps
from streamsched.codec.roll import Roll, called, read_roll
from streamsched.codec.scalar import instant, integer, loads, mapping, schedule, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.event import Event
from streamsched.domain.job import Contribution, ReadyJob

VERSION: Final = 1


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
            "events": roll.to_json(),
            "contributions": contributions,
        }
    )


def decode(raw: bytes) -> ReadyJob:
    """The job that was encoded.

    Raises:
        DecodeError: these bytes are no job of a version we know.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", 1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    roll = read_roll(found.get("events"), "$.events")
    listed = sequence(found.get("contributions"), "$.contributions")
    return ReadyJob(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        integer(found.get("sequence"), "$.sequence", 1),
        instant(found.get("satisfied_at"), "$.satisfied_at"),
        tuple(_contribution(item, roll, f"$.contributions[{place}]") for place, item in enumerate(listed)),
    )


def _contribution(value: object, roll: list[Event], path: str) -> Contribution:
    found = mapping(value, path)
    return Contribution(
        text(found.get("leaf"), f"{path}.leaf"),
        integer(found.get("count"), f"{path}.count"),
        called(found.get("events"), roll, f"{path}.events"),
    )
