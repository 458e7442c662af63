"""Every field of a definition that holds a number, a duration or an instant, and the ways that take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import streamsched as define
from streamsched.codec.schedules.schedule import program_from_json, schedule_from_json
from streamsched.dialects.cdap.codec import schedule as cdap
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.domain.time.duration import duration_text

REF: Final = ScheduleRef("default", "app", "s")
GO: Final = {"type": "EVENT", "event": "go"}

Way = Callable[[Any], Schedule | Program]


def native(**fields: Any) -> Schedule:
    plain = {"name": "s", "application": "app", "program": "p", "trigger": GO}
    return schedule_from_json({**plain, **fields})


def over_cdap(**fields: Any) -> Schedule:
    program = {"programName": "p", "programType": "WORKFLOW"}
    return cdap.from_json({"program": program, "trigger": GO, **fields}, REF)


def built(**fields: Any) -> Schedule:
    app = define.App("app")
    app.bash("p", "true")
    app.schedule("s", program="p", **{"when": define.event("go"), **fields})
    return app.definition().schedules[0]


def one(kind: str, **fields: Any) -> dict[str, Any]:
    return {"constraints": [{"type": kind, **fields}]}


def trigger(kind: str, **fields: Any) -> dict[str, Any]:
    return {"trigger": {"type": kind, **fields}}


def text(span: timedelta) -> str:
    return duration_text(span) if span >= timedelta(0) else "-1s"


#: By field: what takes an extreme in each way. A way that does not know the field is missing.
COUNTS: Final[Mapping[str, tuple[Way, ...]]] = {
    "concurrency": (
        lambda n: native(**one("CONCURRENCY", maxConcurrency=n)),
        lambda n: over_cdap(**one("CONCURRENCY", maxConcurrency=n)),
        lambda n: built(max_concurrent=n),
    ),
    "group limit": (
        lambda n: native(**one("GROUP", group="g", limit=n)),
        lambda n: built(constraints=[define.group("g", n)]),
    ),
    "group weight": (
        lambda n: native(**one("GROUP", group="g", limit=MOST_SLOTS, weight=n)),
        lambda n: built(constraints=[define.group("g", MOST_SLOTS, weight=n)]),
    ),
    "pool size": (
        lambda n: native(**one("POOL", pool="x", size=n)),
        lambda n: built(constraints=[define.pool("x", n)]),
    ),
    "priority": (
        lambda n: native(**one("POOL", pool="x", size=1, priority=n)),
        lambda n: built(constraints=[define.pool("x", 1, priority=n)]),
    ),
    "runs of a rate": (
        lambda n: native(**one("RATE", maxRuns=n, perMillis=1000)),
        lambda n: built(constraints=[define.rate(n, per="1s")]),
    ),
    "burst": (
        lambda n: native(**one("RATE", maxRuns=1, perMillis=1000, burst=n)),
        lambda n: built(constraints=[define.rate(1, per="1s", burst=n)]),
    ),
    "free cores": (
        lambda n: native(**one("LOAD", cluster="c", freeCores=n)),
        lambda n: native(**one("LOAD", cluster="c", freeCores={"enter": n, "leave": n})),
        lambda n: built(constraints=[define.load("c", free_cores=n)]),
    ),
    "running": (
        lambda n: native(**one("LOAD", cluster="c", running=n)),
        lambda n: built(constraints=[define.load("c", running=n)]),
    ),
    "starts of a reading": (
        lambda n: native(**one("LOAD", cluster="c", running=1, startsPerReading=n)),
        lambda n: built(constraints=[define.load("c", running=1, starts=n)]),
    ),
    "partitions": (
        lambda n: native(**trigger("PARTITION", dataset="d", numPartitions=n)),
        lambda n: over_cdap(**trigger("PARTITION", dataset="d", numPartitions=n)),
        lambda n: built(when=define.partitions("d", n)),
    ),
    "total": (
        lambda n: native(**trigger("TOTAL", dataset="d", measure="rows", amount=n)),
        lambda n: built(when=define.total("d", "rows", n)),
    ),
    "bytes of a stream": (
        lambda n: native(**trigger("STREAM_SIZE", streamId="x", bytes=n)),
        lambda n: over_cdap(**trigger("STREAM_SIZE", streamId="x", bytes=n)),
        lambda n: built(when=define.stream_size("x", n)),
    ),
    "times of an event": (
        lambda n: native(**trigger("EVENT", event="e", times=n)),
        lambda n: built(when=define.event("e", n)),
    ),
    "times of a program": (
        lambda n: native(**trigger("PROGRAM_STATUS", programId="p", programStatuses=["COMPLETED"], times=n)),
        lambda n: built(when=define.program("p", "succeeded", times=n)),
    ),
    "at least": (
        lambda n: native(**trigger("AT_LEAST", count=n, triggers=[GO])),
        lambda n: built(when=define.at_least(n, define.event("go"))),
    ),
    "open keys": (
        lambda n: native(**trigger("PER", trigger=GO, by=["a"], atMost=n)),
        lambda n: built(when=define.event("go").per("a", at_most=n)),
    ),
    "attempts": (
        lambda n: native(retry={"attempts": n}),
        lambda n: over_cdap(retry={"attempts": n}),
        lambda n: built(retry=define.retry(n)),
    ),
    "failures in a row": (
        lambda n: native(pauseAfter={"failures": n}),
        lambda n: over_cdap(pauseAfter={"failures": n}),
        lambda n: built(pause_after=define.failures(n)),
    ),
    "ticks made up for": (
        lambda n: native(misfire="all", catchUp={"atMost": n}),
        lambda n: over_cdap(misfire="all", catchUp={"atMost": n}),
        lambda n: built(misfire="all", catch_up=define.catch_up(at_most=n)),
    ),
}
DURATIONS: Final[Mapping[str, tuple[Way, ...]]] = {
    "delay": (
        lambda d: native(**one("DELAY", delay=text(d))),
        lambda d: over_cdap(**one("DELAY", delay=text(d))),
        lambda d: built(delay=d),
    ),
    "since the last run": (
        lambda d: native(**one("LAST_RUN", interval=text(d))),
        lambda d: over_cdap(**one("LAST_RUN", interval=text(d))),
        lambda d: built(since_last_run=d),
    ),
    "per": (
        lambda d: native(**one("RATE", maxRuns=1, per=text(d))),
        lambda d: built(constraints=[define.rate(1, per=d)]),
    ),
    "timeout": (
        lambda d: native(timeout=text(d)),
        lambda d: over_cdap(timeout=text(d)),
        lambda d: built(timeout=d),
    ),
    "longest run": (lambda d: native(maxDuration=text(d)), lambda d: built(max_duration=d)),
    "interval": (
        lambda d: native(**trigger("EVERY", interval=text(d))),
        lambda d: over_cdap(**trigger("EVERY", interval=text(d))),
        lambda d: built(when=define.every(d)),
    ),
    "jitter": (
        lambda d: native(**trigger("EVERY", interval="1h", jitter=text(d))),
        lambda d: built(when=define.every("1h", jitter=d)),
    ),
    "within": (
        lambda d: native(**trigger("WITHIN", trigger=GO, duration=text(d))),
        lambda d: over_cdap(**trigger("WITHIN", trigger=GO, duration=text(d))),
        lambda d: built(when=define.event("go").within(d)),
    ),
    "quiet": (
        lambda d: native(**trigger("QUIET", trigger=GO, duration=text(d))),
        lambda d: built(when=define.event("go").quiet(d)),
    ),
    "quiet at most": (
        lambda d: native(**trigger("QUIET", trigger=GO, duration="1us", atMost=text(d))),
        lambda d: built(when=define.event("go").quiet("1us", at_most=d)),
    ),
    "silence": (
        lambda d: native(**trigger("SILENCE", of=GO, duration=text(d))),
        lambda d: built(when=define.silence(define.event("go"), d)),
    ),
    "then": (
        lambda d: native(**trigger("THEN", first=GO, second=GO, within=text(d))),
        lambda d: built(when=define.then(define.event("go"), define.event("go"), within=d)),
    ),
    "unless": (
        lambda d: native(**trigger("UNLESS", trigger=GO, veto=GO, within=text(d))),
        lambda d: built(when=define.event("go").unless(define.event("go"), within=d)),
    ),
    "keys expire": (
        lambda d: native(**trigger("PER", trigger=GO, by=["a"], expires=text(d))),
        lambda d: built(when=define.event("go").per("a", expires=d)),
    ),
    "late": (lambda d: native(late=text(d)), lambda d: built(late=d)),
    "deadline": (
        lambda d: native(deadlines=[{"type": "finish-by", "within": text(d)}]),
        lambda d: built(deadlines=[define.finish_by(d)]),
    ),
    "pause": (
        lambda d: native(pauseAfter={"failures": 1, "lasting": text(d)}),
        lambda d: built(pause_after=define.failures(1, lasting=d)),
    ),
    "retry delay": (
        lambda d: native(retry={"attempts": 2, "delay": text(d), "longest": text(d)}),
        lambda d: built(retry=define.retry(2, delay=d, longest=d)),
    ),
    "catch-up window": (
        lambda d: native(misfire="all", catchUp={"window": text(d)}),
        lambda d: built(misfire="all", catch_up=define.catch_up(window=d)),
    ),
    "catch-up spacing": (
        lambda d: native(misfire="all", catchUp={"spacing": text(d)}),
        lambda d: built(misfire="all", catch_up=define.catch_up(spacing=d)),
    ),
    "answer of a server": (
        lambda d: program_from_json(
            {"name": "p", "application": "app", "type": "http", "url": "http://x", "timeout": text(d)}
        ),
    ),
}
MOMENTS: Final[Mapping[str, tuple[Way, ...]]] = {
    "at": (
        lambda i: native(**trigger("AT", instant=i.isoformat())),
        lambda i: over_cdap(**trigger("AT", instant=i.isoformat())),
        lambda i: built(when=define.at(i)),
    ),
    "start": (
        lambda i: native(**trigger("EVERY", interval="1h", start=i.isoformat())),
        lambda i: built(when=define.every("1h", start=i)),
    ),
}
#: CDAP's milliseconds, which native JSON reads too.
MILLIS: Final[Mapping[str, tuple[str, Callable[[Any], dict[str, Any]]]]] = {
    "delay": ("$.constraints[0].millisAfterTrigger", lambda n: one("DELAY", millisAfterTrigger=n)),
    "last run": ("$.constraints[0].millisSinceLastRun", lambda n: one("LAST_RUN", millisSinceLastRun=n)),
    "rate": ("$.constraints[0].perMillis", lambda n: one("RATE", maxRuns=1, perMillis=n)),
}
