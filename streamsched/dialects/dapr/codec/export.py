"""Exported jobs as lines of JSON, with their counters, so that repeats and retries go on where they were.

{"version": 1}
{"name": "j", "schedule": "@daily", …, "data": {"type": "…", "base64": "…"},
 "counters": {"dueAt": instant, "plannedAt": instant, "nextAt": instant, "fired": 3, "failures": 0,
              "skipped": 0, "unhandled": 0, "createdAt": instant, "until": instant or null}}
{"jobs": 1}

The last line has the number of jobs, so an export that was cut off is noticed.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.codec.json.scalar import loads
from streamsched.dialects.dapr.codec.job import DaprData, DaprJob
from streamsched.dialects.dapr.codec.job_json import job_from_object, job_to_json
from streamsched.domain.errors import DecodeError
from streamsched.domain.limits import MOST_SLOTS

VERSION: Final = 1
#: The most that an import sets `skipped` and `unhandled` to, so that they still have room to grow.
MOST_COUNTED: Final = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounters:
    """How far a job is.

    Attributes:
        due_at, planned_at: due time and planned time of its next tick (UTC).
        next_at: earliest start of its next attempt (UTC).
        fired: ticks that are done.
        failures: failed attempts of the next tick.
        until: no tick is planned after this instant (UTC); None: no limit.
        skipped: missed ticks that were skipped; of a cron up to 100 in one gap.
        unhandled: ticks for which the app had no handler.
    """

    due_at: datetime
    planned_at: datetime
    next_at: datetime
    fired: int
    failures: int
    created_at: datetime
    until: datetime | None = None
    skipped: int = 0
    unhandled: int = 0

    def __post_init__(self) -> None:
        """Raises:
        DecodeError: a counter is out of bounds.
        """
        for name, value in (("fired", self.fired), ("failures", self.failures)):
            if not 0 <= value <= MOST_SLOTS:
                raise DecodeError(f"$.{name}", f"must be from 0 to {MOST_SLOTS} but is {format_value(value)}")
        for name, value in (("skipped", self.skipped), ("unhandled", self.unhandled)):
            if not 0 <= value <= MOST_COUNTED:
                raise DecodeError(f"$.{name}", f"must be from 0 to {MOST_COUNTED} but is {format_value(value)}")


class ExportedLine(NamedTuple):
    """A job of an export as it was written. `position`: of its line, from 0."""

    position: int
    name: str
    line: bytes


def export_head() -> bytes:
    """The first line of an export."""
    return orjson.dumps({"version": VERSION}, option=orjson.OPT_APPEND_NEWLINE)


def export_line(job: DaprJob, counters: JobCounters) -> bytes:
    """The line of a job."""
    return orjson.dumps(_job(job, counters), option=orjson.OPT_APPEND_NEWLINE)


def export_end(jobs: int) -> bytes:
    """The last line of an export of so many jobs."""
    return orjson.dumps({"jobs": jobs}, option=orjson.OPT_APPEND_NEWLINE)


class ExportReader:
    """Reads the lines of one export in their order."""

    def __init__(self) -> None:
        self._position = 0
        self._jobs = 0
        self._ended = False

    def read(self, lines: Sequence[bytes]) -> list[ExportedLine]:
        """The jobs of the next lines, each with its name alone.

        Raises:
            InvalidError: it is no export, or of a later release; with the path `$[line].field`.
        """
        found: list[ExportedLine] = []
        for line in lines:
            position, self._position = self._position, self._position + 1
            fields = Fields(loads(line, f"$[{position}]"), f"$[{position}]")
            if position == 0:
                version = fields.integer("version")
                if version != VERSION:
                    fields.fail(
                        "version", f"must be {VERSION} but is {format_value(version)}: it is of another release"
                    )
                continue
            if self._ended:
                raise DecodeError(f"$[{position}]", "follows the end of the export")
            if fields.has("jobs"):
                self._ended = True
                if fields.integer("jobs") != self._jobs:
                    fields.fail("jobs", f"must be {self._jobs}: lines are missing")
                continue
            self._jobs += 1
            found.append(ExportedLine(position, fields.text("name"), line))
        return found

    def end(self) -> None:
        """There are no more lines.

        Raises:
            DecodeError: the last one is missing.
        """
        if not self._ended:
            raise DecodeError("$", 'is cut off: the last line of an export is {"jobs": n}')


def job_of_line(given: ExportedLine) -> tuple[DaprJob, JobCounters]:
    """The job of a line.

    Raises:
        InvalidError: it is none; with the path of the field.
    """
    value = loads(given.line, f"$[{given.position}]")
    return _read(Fields(value, f"$[{given.position}]"), value)


def _job(job: DaprJob, counters: JobCounters) -> dict[str, Any]:
    return {
        **job_to_json(replace(job, data=None)),
        **({} if job.misfire is None else {"misfire": job.misfire}),
        **({} if job.data is None else {"data": _data(job.data)}),
        "counters": {
            "dueAt": counters.due_at.isoformat(),
            "plannedAt": counters.planned_at.isoformat(),
            "nextAt": counters.next_at.isoformat(),
            "fired": counters.fired,
            "failures": counters.failures,
            "skipped": counters.skipped,
            "unhandled": counters.unhandled,
            "createdAt": counters.created_at.isoformat(),
            "until": None if counters.until is None else counters.until.isoformat(),
        },
    }


def _data(data: DaprData) -> dict[str, str]:
    return {"type": data.type_url, "base64": b64encode(data.value).decode()}


def _read(fields: Fields, value: dict[str, Any]) -> tuple[DaprJob, JobCounters]:
    name, data, counters = fields.text("name"), fields.optional_object("data"), fields.object("counters")
    with prefix_errors(fields.path):
        job = job_from_object(name, {key: each for key, each in value.items() if key != "data"})
    if data is not None:
        try:
            job = replace(job, data=DaprData(data.text("type"), b64decode(data.text("base64"), validate=True)))
        except (binascii.Error, ValueError):
            data.fail("base64", "is not base64")
    with prefix_errors(counters.path):
        return job, JobCounters(
            due_at=counters.instant("dueAt"),
            planned_at=counters.instant("plannedAt"),
            next_at=counters.instant("nextAt"),
            fired=counters.integer("fired"),
            failures=counters.integer("failures"),
            created_at=counters.instant("createdAt"),
            until=counters.optional_instant("until"),
            skipped=counters.optional_integer("skipped") or 0,
            unhandled=counters.optional_integer("unhandled") or 0,
        )
