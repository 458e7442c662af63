"""Run records of CDAP as past runs.

{"runid", "starting", "start", "end": seconds since 1970, "status": "COMPLETED",
 "properties": {"runtimeArgs": "{\\"a\\": \\"b\\"}"}, …}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import orjson

from streamsched.codec.moving.draft import Report
from streamsched.dialects.cdap.codec.dump.answers import text_of
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.imported_run import ImportedRun
from streamsched.domain.jobs.run import RunState
from streamsched.domain.json_value import Json
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.arguments import check_texts

#: Runs of a program that are taken, unless others are asked for; and most.
RUNS: Final = 100
MOST_RUNS: Final = 10_000
_STATES: Final[Mapping[str, RunState]] = {
    "COMPLETED": RunState.COMPLETED,
    "FAILED": RunState.FAILED,
    "KILLED": RunState.KILLED,
    "REJECTED": RunState.FAILED,
    "ORPHANED": RunState.LOST,
}
_ACTIVE: Final = frozenset({"PENDING", "STARTING", "RUNNING", "SUSPENDED", "RESUMING", "STOPPING"})
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
#: Seconds: the last instant of the year 9999.
_LATEST_S: Final = 253_402_300_799


def runs_of(answer: Json, program: ProgramRef, path: str, report: Report, *, most: int) -> list[ImportedRun]:
    """The newest runs that have ended, the newest first; a row for each reason why others are left out."""
    if answer is None:
        return []
    if not isinstance(answer, list):
        report.cannot(path, "the runs are not a list")
        return []
    found: dict[str, ImportedRun] = {}
    reasons: Counter[str] = Counter()
    bare: Counter[str] = Counter()
    for record in answer:
        try:
            run, lost = _run(record, program)
        except InvalidError as exc:
            reasons[exc.reason] += 1
            continue
        if run.id in found:
            reasons["they have the id of another run"] += 1
        elif lost:
            bare[lost] += 1
        found.setdefault(run.id, run)
    for reason, count in bare.items():
        report.differs(path, f"runs without their arguments, {count}: {reason}")
    for reason, count in reasons.most_common(10):
        report.cannot(path, f"runs left out, {count}: {reason}")
    if len(reasons) > 10:
        report.cannot(path, f"runs left out, {sum(count for _, count in reasons.most_common()[10:])}: other reasons")
    newest = sorted(found.values(), key=lambda run: (run.created_at, run.id), reverse=True)
    if len(newest) > most:
        report.differs(path, f"{len(newest) - most} older runs are left out; --runs {len(newest)} takes them")
    return newest[:most]


def _run(found: Json, program: ProgramRef) -> tuple[ImportedRun, str]:
    """The run, and why it lacks its arguments; empty: it has them.

    Raises:
        InvalidError: it has not ended, or is not understood; the reason is the same for all runs of its kind.
    """
    if not isinstance(found, dict):
        raise InvalidError("$", "they are not objects")
    status, name = text_of(found, "status").upper(), text_of(found, "runid")
    if status in _ACTIVE:
        raise InvalidError("$", "they have not ended")
    if status not in _STATES:
        raise InvalidError("$", f"their status is {status[:30]!r}")
    created, started, ended = (_instant(found, each) for each in ("starting", "start", "end"))
    if not name or len(name) > 150 or ended is None:
        raise InvalidError("$", "they have no `runid` or no `end`")
    created = created or started or ended
    if started is None and status == "COMPLETED":
        started = created
    arguments, lost = _arguments(found)
    reason = f"{'rejected' if status == 'REJECTED' else status.lower()} in CDAP"
    id_ = f"cdap-{_ODD.sub('-', name)}"
    return ImportedRun(program, id_, _STATES[status], created, started, ended, arguments, reason), lost


def _instant(record: Mapping[str, Json], name: str) -> datetime | None:
    seconds = record.get(name)
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds <= _LATEST_S:
        raise InvalidError("$", f"`{name}` is no number of seconds")
    return datetime.fromtimestamp(seconds, UTC)


def _arguments(record: Mapping[str, Json]) -> tuple[dict[str, str], str]:
    """The arguments of a run, or why there are none."""
    properties = record.get("properties")
    text = text_of(properties, "runtimeArgs") if isinstance(properties, dict) else ""
    if not text:
        return {}, ""
    try:
        given: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}, "their `runtimeArgs` are no JSON"
    if not isinstance(given, dict):
        return {}, "their `runtimeArgs` are no object"
    arguments = {name: value for name, value in given.items() if isinstance(value, str)}
    try:
        check_texts(arguments, "$", "arguments")
    except InvalidError:
        return {}, "their `runtimeArgs` are more or longer than arguments are here"
    return arguments, ""
