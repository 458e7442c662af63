"""What a program is told about why it runs: our own shape with everything, and CDAP's `triggeringScheduleInfo`.

Native:

    {"job": id, "schedule": text, "generation": n, "sequence": n, "satisfied_at": instant,
     "logical_start_time": instant of the latest tick (absent without one),
     "key": of a schedule that correlates, what it was satisfied for (absent in others),
     "when": `codec.trigger`, the trigger as it is defined (absent where nobody knows it any more),
     "leaves": [{"leaf": id, "count": n in the leaf's unit, "events": [native event, …]}, …]}

Instants are text (ISO 8601, UTC). Events are as in `codec.native`, in order of arrival; one stands under each leaf it
counted for, there with what counted for that leaf: of a commit the partitions that the leaf asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, assert_never

from streamsched.codec import trigger as trigger_codec
from streamsched.codec.cdap.cron import to_quartz
from streamsched.codec.native import plain, to_json
from streamsched.domain.dialect import Dialect
from streamsched.domain.event import Event, Outcome, ProgramReached, StreamSize, Ticked
from streamsched.domain.job import Contribution, ReadyJob, merged
from streamsched.domain.trigger import (
    At,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Total,
    Trigger,
    leaf_id,
    leaves,
)

_MEGABYTE: Final = 1_048_576
_STATUSES: Final[Mapping[Outcome, str]] = MappingProxyType(
    {
        Outcome.STARTED: "RUNNING",
        Outcome.SUCCEEDED: "COMPLETED",
        Outcome.FAILED: "FAILED",
        Outcome.KILLED: "KILLED",
    }
)


def native(job: ReadyJob, *, trigger: Trigger | None = None) -> dict[str, Any]:
    """Every contributing event, per leaf in the trigger's order; plain JSON values throughout."""
    ticks = [fact.due_at for part in job.contributions for fact in _ticks(part)]
    found: dict[str, Any] = {
        "job": job.id,
        "schedule": str(job.schedule),
        "generation": job.generation,
        "sequence": job.sequence,
        "satisfied_at": job.satisfied_at,
        "leaves": [
            {"leaf": part.leaf, "count": part.count, "events": [to_json(event) for event in part.events]}
            for part in job.contributions
        ],
    }
    if ticks:
        found["logical_start_time"] = max(ticks)
    if job.key:
        found["key"] = job.key
    if trigger is not None:
        found["when"] = trigger_codec.to_json(trigger)
    return plain(found)


def triggering_schedule_info(
    job: ReadyJob, *, trigger: Trigger, description: str = "", properties: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """CDAP's shape (its system argument `triggeringScheduleInfo` is this, as JSON text).

    One info for each distinct leaf of `trigger`, in its order: a partition's always, the others' when they contributed
    (a program's is its first run that counted, a time's its latest tick). Custom events and totals have no shape there
    and none here: programs of CDAP's read no list with a shape they do not know. `every` and `at` are TIME without a
    cron expression, and an expression is in Quartz's words where it has any. Times in milliseconds.
    """
    contributed = {part.leaf: part for part in merged(job, ()).contributions}
    distinct = {leaf_id(leaf): leaf for leaf in leaves(trigger)}
    infos = [info for name, leaf in distinct.items() for info in _infos(leaf, contributed.get(name))]
    return {
        "name": job.schedule.name,
        "description": description,
        "properties": dict(properties or {}),
        "triggerInfos": infos,
    }


def _infos(leaf: Leaf, part: Contribution | None) -> Iterator[dict[str, Any]]:
    match leaf:
        case Cron() | Every() | At():
            ticks = [] if part is None else _ticks(part)
            if ticks:
                yield {**_cron(leaf), "logicalStartTime": _millis(max(tick.due_at for tick in ticks)), "type": "TIME"}
        case Partitions(dataset=dataset, count=count):
            yield {
                "datasetNamespace": dataset.namespace,
                "datasetName": dataset.name,
                "expectedNumPartitions": count,
                "actualNumPartitions": 0 if part is None else part.count,
                "type": "PARTITION",
            }
        case StreamGrowth():
            if part is not None:
                yield _stream_info(leaf, part)
        case ProgramStatus():
            for event in () if part is None else part.events[:1]:
                yield from _program_info(event)
        case CustomEvent() | Total():
            return
        case _:
            assert_never(leaf)


def _cron(leaf: Cron | Every | At) -> dict[str, str]:
    if not isinstance(leaf, Cron):
        return {}
    quartz = to_quartz(leaf.expression) if leaf.dialect is Dialect.UNIX else None
    return {"cronExpression": quartz or leaf.expression}


def _stream_info(leaf: StreamGrowth, part: Contribution) -> dict[str, Any]:
    """The size is the last whole one that was reported, or as much as is known to have come."""
    whole = [e.fact.bytes for e in part.events if isinstance(e.fact, StreamSize) and e.fact.absolute]
    size = whole[-1] if whole else part.count
    return {
        "streamNamespace": leaf.stream.namespace,
        "streamName": leaf.stream.name,
        "triggerMB": leaf.bytes // _MEGABYTE,
        "streamSize": size,
        "basePollingTime": _millis(part.events[0].time),
        "baseStreamSize": max(0, size - part.count),
        "type": "STREAM_SIZE",
    }


def _program_info(event: Event) -> Iterator[dict[str, Any]]:
    fact = event.fact
    if isinstance(fact, ProgramReached):
        yield {
            "namespace": fact.program.namespace,
            "applicationName": fact.program.app,
            "programType": "WORKFLOW",
            "program": fact.program.name,
            "runId": fact.run_id,
            "programStatus": _STATUSES[fact.outcome],
            "workflowToken": {},
            "runtimeArguments": dict(fact.arguments),
            "type": "PROGRAM_STATUS",
        }


def _ticks(part: Contribution) -> list[Ticked]:
    return [event.fact for event in part.events if isinstance(event.fact, Ticked)]


def _millis(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
