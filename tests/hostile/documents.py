"""Documents in which every field is said: apps of one schedule, CDAP schedules, events in each dialect.

All names of case n begin with `h<n>`, so that nothing of a case is shared with another or with a canary.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

Json = dict[str, Any]

_CALENDAR: Final[Json] = {
    "name": "exchange",
    "weekdays": ["SAT", "SUN"],
    "yearly": ["12-25"],
    "dates": ["2026-04-03", "2026-12-24/2027-01-03"],
    "open": ["2026-12-28"],
}


def go(name: str) -> Json:
    """The trigger that the case's event satisfies."""
    return {"type": "EVENT", "event": f"{name}go", "times": 1, "match": {"by": {"glob": "*"}}}


def _commits(name: str, count: int = 1) -> Json:
    return {
        "type": "PARTITION",
        "dataset": {"namespace": "default", "dataset": f"{name}d", "entity": "DATASET"},
        "numPartitions": count,
        "match": {"region": ["EU", "US"]},
    }


def triggers(name: str) -> list[Json]:
    """A trigger of each kind, with every field."""
    event, commits = go(name), _commits(name)
    bare = {"type": "PARTITION", "dataset": f"{name}d", "numPartitions": 1}
    return [
        event,
        commits,
        {"type": "TOTAL", "dataset": f"{name}d", "measure": "bytes", "amount": 10, "match": {"region": {"glob": "E*"}}},
        {"type": "STREAM_SIZE", "streamId": {"namespace": "default", "stream": f"{name}z"}, "triggerMB": 1},
        {"type": "STREAM_SIZE", "streamId": f"{name}z", "bytes": 10},
        {
            "type": "PROGRAM_STATUS",
            "programId": {
                "namespace": "default",
                "application": name,
                "program": "p",
                "entity": "PROGRAM",
                "version": "1",
                "type": "SPARK",
            },
            "programStatuses": ["FAILED", "KILLED"],
            "times": 2,
            "match": {"region": {"glob": "E*"}},
        },
        {
            "type": "TIME",
            "cronExpression": "0 4 * * *",
            "timeZone": "Europe/Berlin",
            "dialect": "unix",
            "inGap": "after",
            "inOverlap": "first",
            "calendar": _CALENDAR,
            "onClosed": "next",
            "jitter": "5m",
        },
        {"type": "TIME", "cronExpression": "0 4 LW * ?", "timeZone": "UTC", "dialect": "quartz"},
        {"type": "TIME", "cronExpression": "0 */5 * * * *", "timeZone": "UTC", "dialect": "dapr"},
        {"type": "SINCE_LAST_RUN", "duration": "4h"},
        {
            "type": "EVERY",
            "interval": "15m",
            "start": "2013-01-08T04:00:00+00:00",
            "calendar": _CALENDAR,
            "timeZone": "Europe/Berlin",
            "jitter": "5m",
        },
        {"type": "AT", "instant": "2030-01-08T04:00:00+00:00"},
        {"type": "AND", "triggers": [event, bare]},
        {"type": "OR", "triggers": [event, bare]},
        {"type": "AT_LEAST", "count": 1, "triggers": [event, bare]},
        {"type": "THEN", "first": event, "second": bare, "within": "2h"},
        {"type": "UNLESS", "trigger": event, "veto": bare, "within": "1s"},
        {"type": "WITHIN", "trigger": {"type": "AND", "triggers": [event, bare]}, "duration": "1s", "then": "fire"},
        {"type": "QUIET", "trigger": event, "duration": "1s", "atMost": "1h"},
        {"type": "SILENCE", "of": event, "duration": "1s"},
        {
            "type": "PER",
            "trigger": {"type": "AND", "triggers": [commits, _commits(f"{name}b")]},
            "by": ["date"],
            "expires": "7d",
            "atMost": 100,
        },
        {
            "type": "PER",
            "trigger": {"type": "PER", "trigger": bare, "by": ["date"], "grain": "hour", "rolledUpTo": "day"},
            "by": ["date"],
        },
        {"type": "PER", "trigger": bare, "by": ["date"]},
        {
            "type": "PER",
            "trigger": bare,
            "by": ["hour"],
            "grain": "hour",
            "rolledUpTo": "week",
            "each": {"column": "region", "values": ["eu", "us"]},
            "calendar": {"weekdays": ["SAT", "SUN"]},
        },
    ]


def constraints(name: str) -> list[Json]:
    """A constraint of each kind, with every field."""
    return [
        {"type": "CONCURRENCY", "maxConcurrency": 1, "waitUntilMet": True, "of": "key"},
        {"type": "DELAY", "millisAfterTrigger": 10, "waitUntilMet": True},
        {"type": "DELAY", "delay": "10ms"},
        {"type": "LAST_RUN", "millisSinceLastRun": 100, "waitUntilMet": True},
        {"type": "LAST_RUN", "interval": "100ms", "waitUntilMet": False},
        {"type": "GROUP", "group": f"{name}g", "limit": 3, "weight": 2, "waitUntilMet": True},
        {
            "type": "TIME_RANGE",
            "startTime": "00:00",
            "endTime": "23:59",
            "timeZone": "Europe/Berlin",
            "waitUntilMet": True,
            "calendar": _CALENDAR,
        },
        {"type": "RATE", "maxRuns": 10, "perMillis": 1000, "burst": 2, "of": "schedule", "waitUntilMet": True},
        {"type": "RATE", "maxRuns": 10, "per": "1s", "group": f"{name}r"},
        {"type": "POOL", "pool": f"{name}p", "size": 4, "priority": 10, "waitUntilMet": True},
        {
            "type": "LOAD",
            "cluster": "main",
            "freeCores": {"enter": 8, "leave": 4},
            "freeMemory": 16_000_000_000,
            "running": 10,
            "startsPerReading": 1,
            "waitUntilMet": True,
        },
        {"type": "PLUGIN", "name": "hostile", "config": {"do": "nothing", "amount": 1}, "waitUntilMet": True},
    ]


def policies(name: str) -> list[Json]:
    """Fields of a schedule beside trigger and constraints, in sets that go together."""
    return [
        {
            "overlap": "queue",
            "consumption": "paired",
            "description": "as it is",
            "properties": {"day": "{trigger.job}"},
        },
        {"timeout": "1s", "onTimeout": "launch", "constraints": [{"type": "DELAY", "delay": "1d"}]},
        {"timeout": "1d", "onTimeout": "discard", "maxDuration": "1h"},
        {"retry": {"attempts": 2, "on": ["lost", "error", "crash"], "delay": "1s", "longest": "2s"}},
        {"pauseAfter": {"failures": 3, "keep": True, "lasting": "1h"}},
        {
            "deadlines": [
                {"type": "start-by", "within": "1s", "then": "warn"},
                {"type": "finish-by", "at": "06:00", "timeZone": "Europe/Berlin", "then": "warn"},
                {"type": "duration", "within": "1s", "then": "cancel"},
            ]
        },
        {"late": {"after": "15m", "then": "side"}},
        {
            "misfire": "all",
            "catchUp": {"window": "6h", "atMost": 3, "spacing": "1s"},
            "trigger": {"type": "EVERY", "interval": "1h", "start": "2013-01-08T04:00:00+00:00"},
        },
        {"enabled": True, "onChange": "keep"},
    ]


def programs(name: str, url: str) -> list[Json]:
    """A program of each kind, with every field. Spark is not started."""
    return [
        {"name": "p", "type": "publish", "event": f"{name}said", "attributes": {"by": "{trigger.schedule}"}},
        {
            "name": "p",
            "type": "http",
            "url": f"{url}/well/{{day}}",
            "method": "POST",
            "headers": {"X-Day": "{day}"},
            "body": "{day}",
            "timeout": "2s",
            "defaults": {"day": "monday"},
        },
        {"name": "p", "type": "bash", "command": "true", "defaults": {"day": "monday"}},
    ]


def app(name: str, schedule: Json, program: Json) -> Json:
    """An app with one schedule and the program that it starts."""
    standard = {"name": "s", "program": "p", "trigger": go(name), "constraints": [], "enabled": True}
    return {"programs": [program], "schedules": [{**standard, **schedule}]}


def cdap_schedule(name: str, trigger: Json, wanted: list[Json]) -> Json:
    """A schedule as CDAP's clients say it."""
    return {
        "name": f"{name}c",
        "description": "one of CDAP's",
        "program": {"programName": "p", "programType": "SPARK"},
        "properties": {"a": "b"},
        "trigger": trigger,
        "constraints": wanted,
        "timeoutMillis": 86_400_000,
    }


def events(name: str, *, id_of: str = "e") -> list[Json]:
    """An event of each kind in each dialect, with every field; schedules of the case and of `heard` listen."""
    now = datetime.now(UTC)
    envelope = {"id": f"{name}{id_of}", "source": "hostile", "time": now.isoformat()}
    values = {"date": "2026-11-22", "region": "EU", "hour": "2026-11-22T04"}
    partition = {"key": "date=2026-11-22/region=EU", "values": values, "bytes": 100, "rows": 10}
    payload = {"dataset": f"default.{name}d", "partitions": [partition, "date=2026-11-23"], "count": 2}
    heard = {**payload, "dataset": "default.heard"}
    return [
        {**envelope, "type": "partitions.added", "data": payload},
        {**envelope, "type": "partitions.added", "data": heard},
        {**envelope, "type": "stream.size", "data": {"stream": "default.heard", "bytes": 100, "absolute": False}},
        {**envelope, "type": "stream.size", "data": {"stream": f"default.{name}z", "bytes": 100, "absolute": True}},
        {
            **envelope,
            "type": "program.status",
            "data": {
                "program": "default.heard.other",
                "run": f"{name}r",
                "outcome": "failed",
                "arguments": {"a": "b"},
                "ended_at": (now - timedelta(seconds=1)).isoformat(),
                "error": "out of memory",
            },
        },
        {**envelope, "type": "custom", "data": {"name": "heard", "attributes": {"by": "ops", "day": "monday"}}},
        {**envelope, "type": "tick", "data": {"schedule": "default.heard.s0", "generation": 1, "leaf": "x"}},
        {
            "specversion": "1.0",
            "id": f"{name}{id_of}c",
            "source": "hostile",
            "time": now.isoformat(),
            "type": "streamsched.partitions.added",
            "subject": "default.heard",
            "datacontenttype": "application/json",
            "data": heard,
        },
        {
            "notificationType": "PARTITION",
            "properties": {"datasetId": "dataset:default.heard", "numPartitions": "2", "partitionKeys": '["date=1"]'},
        },
        {
            "notificationType": "PROGRAM_STATUS",
            "properties": {
                "programRunId": '{"namespace":"default","application":"heard","program":"other","run":"r"}',
                "programStatus": "FAILED",
                "endTime": "1700000000000",
                "programError": "out of memory",
                "userOverrides": "{}",
            },
        },
        {"notificationType": "STREAM_SIZE", "properties": {"streamId": "stream:default.heard", "streamSize": "100"}},
    ]


def bundle(name: str) -> list[Json]:
    """Events that satisfy what `triggers` of the case wait for, each twice."""
    some = []
    for turn in range(2):
        mine = events(name, id_of=f"b{turn}")
        attributes = {"by": "ops"}
        happened = {"type": "custom", "data": {"name": f"{name}go", "attributes": attributes}}
        fired = {**mine[0], "id": f"{name}g{turn}", **happened}
        second = {**mine[0], "id": f"{name}o{turn}", "data": {**mine[0]["data"], "dataset": f"default.{name}bd"}}
        some += [fired, mine[0], second, {**mine[3], "id": f"{name}z{turn}"}]
    return some
