"""What a ready job does not tell of programs of another namespace: the error, log, run and arguments of a run that
ended. Its outcome and time remain, and its ancestors, which are digests; its id is replaced by a digest.

The records are read as JSON and not as jobs, because intake copies thousands at a time; the caller has checked that
they are jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any, Final

import orjson

from streamsched.codec.events import ancestors
from streamsched.codec.events.native import PROGRAM_STATUS
from streamsched.codec.records.descent import known_ancestors
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import ProgramRef, ScheduleRef

#: In place of the run's id, and in the event's id and source.
WITHHELD: Final = "withheld"
_MARK: Final = f'"{PROGRAM_STATUS}"'


def foreign_programs(schedule: str, ready: str) -> frozenset[ProgramRef]:
    """The programs of other namespaces than the schedule's whose ends are in the job."""
    if _MARK not in ready:
        return frozenset()
    own = ScheduleRef.parse(schedule).namespace
    found = (_program(event) for event in orjson.loads(ready)["events"])
    return frozenset(each for each in found if each is not None and each.namespace != own)


def without_details(ready: str, programs: Collection[ProgramRef]) -> str:
    """The job without details of these programs' runs."""
    job: dict[str, Any] = orjson.loads(ready)
    contexts = set[object]()
    for index, event in enumerate(job["events"]):
        if _program(event) in programs:
            contexts.add(event.get("traceparent"))
            job["events"][index] = _trim(event)
    if job.get("traceparent") in contexts - {None}:
        del job["traceparent"]
    return orjson.dumps(job).decode()


def _trim(event: dict[str, Any]) -> dict[str, Any]:
    data = event["data"]
    digest = sha256(f"{event.get('source')}\0{event.get('id')}".encode()).hexdigest()[:16]
    kept = {name: data[name] for name in ("program", "outcome", "ended_at") if name in data}
    if (known := known_ancestors(event)) is not None:
        kept["ancestors"] = ancestors.to_json(known)
    return {
        "id": f"{WITHHELD}:{digest}",
        "source": WITHHELD,
        "time": event["time"],
        "type": PROGRAM_STATUS,
        "data": {**kept, "run": WITHHELD},
    }


def _program(event: Mapping[str, Any]) -> ProgramRef | None:
    """Of an end of a program; None of another event, or of one that no job can be made of."""
    if event.get("type") != PROGRAM_STATUS:
        return None
    try:
        return ProgramRef.parse(event["data"]["program"])
    except (InvalidError, KeyError, TypeError, AttributeError):
        return None
