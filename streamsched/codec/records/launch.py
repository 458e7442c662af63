"""Ready jobs as records of topic `launch`; each event is written once.

{"v": 1, "schedule": text, "generation": n, "sequence": n, "satisfied_at": instant,
 "key"?: text, "backlog"?: true, "traceparent"?: text, "corrects"?: job id, "events": [native event, …],
 "contributions": [{"leaf": text, "count": n, "events": [index, …]}, …]}

A record that would be larger than the log takes is compressed by zlib; its JSON is `text_of`.

A submission is only stored, never on the topic. It has version 2; `schedule` is missing when it is to a program:

 "submission": {"job": text, "reason"?: text, "arguments"?: {name: text}, "columns"?: {name: text}, "muted"?: true,
    "backfill"?: text, "logical_at"?: instant, "node"?: text,
    "rerun"?: {"job": text, "run": text, "satisfied_at": instant, "submitted"?: true}}
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.codec.events.event_table import EventTable, events_at, read_event_table
from streamsched.codec.events.native import dumps
from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import boolean, instant, integer, loads, mapping, schedule, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Event
from streamsched.domain.events.trace_context import canonical
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.submission import Rerun, Submission
from streamsched.domain.names import ScheduleRef

VERSION: Final = 1
SUBMITTED: Final = 2

#: How a compressed record begins; JSON does not.
_COMPRESSED: Final = b"x"
#: Of zlib: events take a fifth to a tenth of their length, at 300 MB/s.
_LEVEL: Final = 1
#: Most bytes of JSON in a compressed record.
_LARGEST: Final = 1 << 30


class LaunchHeader(NamedTuple):
    """The identity and time of a satisfaction, without its events."""

    schedule: ScheduleRef
    generation: int
    sequence: int
    satisfied_at: datetime


def encode(job: ReadyJob, *, largest: int | None = None) -> bytes:
    """The job as bytes; equal jobs give equal bytes. `largest`: how many bytes the log takes, beyond which they are
    compressed; None: it takes any number.
    """
    raw = _to_json(job)
    return raw if largest is None or len(raw) <= largest else zlib.compress(raw, _LEVEL)


def text_of(raw: bytes) -> str:
    """The JSON of a record.

    Raises:
        DecodeError: it is not UTF-8; or compressed, and damaged or of more than 1 GiB.
    """
    try:
        return _inflate(raw).decode()
    except UnicodeDecodeError as exc:
        raise DecodeError("$", "is not UTF-8") from exc


def _to_json(job: ReadyJob) -> bytes:
    table = EventTable()
    contributions = [
        {"leaf": each.leaf, "count": each.count, "events": table.indexes(each.events)} for each in job.contributions
    ]
    return dumps(
        {
            "v": VERSION if job.submission is None else SUBMITTED,
            **({} if job.schedule is None else {"schedule": str(job.schedule)}),
            "generation": job.generation,
            "sequence": job.sequence,
            "satisfied_at": job.satisfied_at,
            **({"key": job.key} if job.key else {}),
            **({"backlog": True} if job.backlog else {}),
            **({} if job.traceparent is None else {"traceparent": job.traceparent}),
            **({"corrects": job.corrects} if job.corrects else {}),
            **({} if job.submission is None else {"submission": submission_to_json(job.submission)}),
            "events": table.to_json(),
            "contributions": contributions,
        }
    )


def decode(raw: bytes | str) -> ReadyJob:
    """Decodes a job: JSON.

    Raises:
        DecodeError: it is not a job of a known version.
    """
    found = _read_versioned(raw, VERSION, SUBMITTED)
    table = read_event_table(found.get("events"), "$.events")
    listed = sequence(found.get("contributions"), "$.contributions")
    submission = None
    if found["v"] == SUBMITTED:
        submission = submission_from_json(found.get("submission"), "$.submission")
    return ReadyJob(
        None if submission is not None and "schedule" not in found else schedule(found.get("schedule"), "$.schedule"),
        *_numbers(found, least=1 if submission is None else 0),
        tuple(_contribution(item, table, f"$.contributions[{index}]") for index, item in enumerate(listed)),
        text(found["key"], "$.key") if "key" in found else "",
        submission,
        "backlog" in found and boolean(found["backlog"], "$.backlog"),
        canonical(found.get("traceparent")),
        text(found["corrects"], "$.corrects") if "corrects" in found else "",
    )


def peek(raw: bytes | str) -> LaunchHeader:
    """Decodes what intake needs, at a ninth of the cost of `decode`: events are not decoded.

    Raises:
        DecodeError: the header is not that of a job of a known version.
    """
    found = _read_versioned(raw, VERSION)
    sequence(found.get("events"), "$.events")
    sequence(found.get("contributions"), "$.contributions")
    return LaunchHeader(schedule(found.get("schedule"), "$.schedule"), *_numbers(found, least=1))


def submission_to_json(submission: Submission) -> dict[str, object]:
    """The submission as a plain JSON value; empty members are omitted."""
    return {
        "job": submission.job,
        **({"reason": submission.reason} if submission.reason else {}),
        **({"arguments": dict(submission.arguments)} if submission.arguments else {}),
        **({"columns": dict(submission.columns)} if submission.columns else {}),
        **({"muted": True} if submission.muted else {}),
        **({"backfill": submission.backfill} if submission.backfill is not None else {}),
        **({"logical_at": submission.logical_at} if submission.logical_at is not None else {}),
        **({"node": submission.node} if submission.node is not None else {}),
        **({"rerun": _rerun_to_json(submission.rerun)} if submission.rerun is not None else {}),
    }


def submission_from_json(value: object, path: str) -> Submission:
    """Decodes a submission.

    Raises:
        DecodeError: it is malformed; has the path of the field.
    """
    fields = Fields(mapping(value, path), path)
    rerun = fields.optional_object("rerun")
    return Submission(
        fields.text("job"),
        fields.optional_text("reason") or "",
        fields.texts("arguments"),
        fields.texts("columns"),
        None
        if rerun is None
        else Rerun(
            rerun.text("job"),
            rerun.text("run"),
            rerun.instant("satisfied_at"),
            rerun.optional_boolean("submitted") or False,
        ),
        fields.optional_boolean("muted") or False,
        fields.optional_text("backfill"),
        fields.optional_instant("logical_at"),
        fields.optional_text("node"),
    )


def _rerun_to_json(rerun: Rerun) -> dict[str, object]:
    return {
        "job": rerun.job,
        "run": rerun.run,
        "satisfied_at": rerun.satisfied_at,
        **({"submitted": True} if rerun.submitted else {}),
    }


def _inflate(raw: bytes) -> bytes:
    if not raw.startswith(_COMPRESSED):
        return raw
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(raw, _LARGEST)
    except zlib.error as exc:
        raise DecodeError("$", "is compressed and damaged") from exc
    if not inflater.eof:
        raise DecodeError("$", "is compressed, and not whole or larger than 1 GiB")
    return found


def _read_versioned(raw: bytes | str, *known: int) -> Mapping[str, object]:
    found = mapping(loads(raw if isinstance(raw, str) else _inflate(raw)), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) not in known:
        raise DecodeError("$.v", f"is version {version}; this code knows {' and '.join(map(str, known))}")
    return found


def _numbers(found: Mapping[str, object], *, least: int) -> tuple[int, int, datetime]:
    """Generation, sequence and time of the satisfaction."""
    return (
        integer(found.get("generation"), "$.generation"),
        integer(found.get("sequence"), "$.sequence", minimum=least),
        instant(found.get("satisfied_at"), "$.satisfied_at"),
    )


def _contribution(value: object, table: list[Event], path: str) -> Contribution:
    found = mapping(value, path)
    return Contribution(
        text(found.get("leaf"), f"{path}.leaf"),
        integer(found.get("count"), f"{path}.count"),
        events_at(found.get("events"), table, f"{path}.events"),
    )
