"""The trigger context passed to a program: our complete form, and CDAP's `triggeringScheduleInfo`.

Native:

    {"job": id, "schedule": text (absent for a submission to a program), "generation": n, "sequence": n,
     "satisfied_at": instant, "submission": {"reason": text} (absent for a job of the trigger, and a rerun of one),
     "rerun": {"job": id, "run": id} (absent for other jobs than reruns),
     "logical_start_time": instant of the latest tick (absent without one),
     "key": the correlation key (absent without one),
     "corrects": the id of the job whose data was written again (absent for other jobs than corrections),
     "when": the trigger as in `codec.triggers.trigger` (absent when the definition is not available),
     "leaves": [{"leaf": id, "count": n in the leaf's unit, "events": [native event, …]}, …]}

Instants are text (ISO 8601, UTC). Events are as in `codec.events.native`, in order of arrival; an event is listed under
each leaf that counted it, reduced to the part that counted there, such as the matching partitions of a commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, assert_never

from streamsched.codec.events.native import to_json, to_plain
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.codec.triggers.quartz import to_quartz
from streamsched.domain.events.event import Event, Outcome, ProgramReached, StreamSize, Ticked
from streamsched.domain.jobs.job import Contribution, ReadyJob, merge_satisfactions
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.trigger import (
    At,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Partitions,
    ProgramStatus,
    SinceLastRun,
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
    """All contributing events by leaf, in the trigger's order, as plain JSON values."""
    ticks = [fact.due_at for part in job.contributions for fact in _ticks(part)]
    found: dict[str, Any] = {
        "job": job.id,
        "generation": job.generation,
        "sequence": job.sequence,
        "satisfied_at": job.logical_at,
        "leaves": [
            {"leaf": part.leaf, "count": part.count, "events": [to_json(event) for event in part.events]}
            for part in job.contributions
        ],
    }
    if job.schedule is not None:
        found["schedule"] = str(job.schedule)
    rerun = None if job.submission is None else job.submission.rerun
    if job.submission is not None and job.is_by_person:
        found["submission"] = {"reason": job.submission.reason}
    if rerun is not None:
        found["rerun"] = {"job": rerun.job, "run": rerun.run}
    if ticks:
        found["logical_start_time"] = max(ticks)
    if job.key:
        found["key"] = job.key
    if job.corrects:
        found["corrects"] = job.corrects
    if trigger is not None:
        found["when"] = trigger_codec.to_json(trigger)
    return to_plain(found)


def triggering_schedule_info(
    job: ReadyJob, *, trigger: Trigger, description: str = "", properties: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """CDAP's form; its system argument `triggeringScheduleInfo` is this as JSON text.

    One info for each distinct leaf of `trigger`, in its order: always for a partition, for others when they contributed
    (for a program its first run that counted, for a time leaf its latest tick). Custom events and totals are left out,
    because CDAP's programs reject a list with unknown types. `every` and `at` are TIME without a cron expression; a
    cron expression is translated to Quartz if possible. Times are in milliseconds.
    """
    contributed = {part.leaf: part for part in merge_satisfactions(job, ()).contributions}
    distinct = {leaf_id(leaf): leaf for leaf in leaves(trigger)}
    infos = [info for name, leaf in distinct.items() for info in _infos(leaf, contributed.get(name))]
    return {
        "name": "" if job.schedule is None else job.schedule.name,
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
        case CustomEvent() | Total() | SinceLastRun():
            return
        case _:
            assert_never(leaf)


def _cron(leaf: Cron | Every | At) -> dict[str, str]:
    if not isinstance(leaf, Cron):
        return {}
    quartz = to_quartz(leaf.expression) if leaf.dialect is Dialect.UNIX else None
    return {"cronExpression": quartz or leaf.expression}


def _stream_info(leaf: StreamGrowth, part: Contribution) -> dict[str, Any]:
    """The size is the last absolute one reported, otherwise the known growth."""
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
