"""Adds past runs from lines of JSON to the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import orjson

from streamsched.codec.moving.imported_run import imported_run_from_json
from streamsched.domain.decisions.retention import day_of
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.imported_run import ImportedRun
from streamsched.store.jobs.imported_runs import ImportedRunStore

#: Runs of one transaction.
_BATCH: Final = 1000
#: Most bytes of one line.
_LONGEST: Final = 16 * 1024 * 1024
#: How much later than ours the clock of another scheduler may be.
_AHEAD: Final = timedelta(minutes=5)
#: Lines whose reasons are kept.
_MOST_REASONS: Final = 100


@dataclass
class ImportedRunReport:
    """What became of the lines.

    Attributes:
        old: runs that ended before the history that is kept.
        refused: lines that are no past runs; `reasons` has those of the first ones.
        without_program: runs of programs that are not deployed, named by `unknown`.
    """

    added: int = 0
    known: int = 0
    old: int = 0
    refused: int = 0
    without_program: int = 0
    unknown: set[str] = field(default_factory=set[str])
    reasons: list[str] = field(default_factory=list[str])


async def add_imported_runs(
    lines: Iterable[bytes], *, store: ImportedRunStore, keep: timedelta, now: datetime, batch: int = _BATCH
) -> ImportedRunReport:
    """Adds the runs of all lines; one that is no run does not hold up others. Idempotent, also when it is interrupted.

    Args:
        keep: how long the history keeps ended runs.

    Raises:
        UnavailableError: PostgreSQL is unavailable; the runs of some lines were added.
    """
    report = ImportedRunReport()
    runs: dict[str, ImportedRun] = {}
    for run in _importable_runs(lines, report, keep_from=day_of(now - keep).begins, latest=now + _AHEAD):
        if run.run in runs:
            report.known += 1
            continue
        runs[run.run] = run
        if len(runs) >= batch:
            await _add(runs, store, report)
    await _add(runs, store, report)
    return report


async def _add(runs: dict[str, ImportedRun], store: ImportedRunStore, report: ImportedRunReport) -> None:
    if not runs:
        return
    found = await store.add(list(runs.values()))
    runs.clear()
    report.added += found.added
    report.known += found.known
    report.without_program += found.without_program
    report.unknown.update(found.unknown)


def _importable_runs(
    lines: Iterable[bytes], report: ImportedRunReport, *, keep_from: datetime, latest: datetime
) -> Iterator[ImportedRun]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            run = _run(line, latest)
        except InvalidError as exc:
            report.refused += 1
            if len(report.reasons) < _MOST_REASONS:
                report.reasons.append(f"line {number}: {exc}"[:500])
            continue
        if run.ended_at < keep_from:
            report.old += 1
        else:
            yield run


def _run(line: bytes, latest: datetime) -> ImportedRun:
    """Raises:
    InvalidError: it is no past run.
    """
    if len(line) > _LONGEST:
        raise InvalidError("$", f"has more than {_LONGEST} bytes")
    try:
        run = imported_run_from_json(orjson.loads(line))
    except orjson.JSONDecodeError as exc:
        raise InvalidError("$", f"is not valid JSON: {exc}") from exc
    if run.ended_at > latest:
        raise InvalidError("$.endedAt", f"is {run.ended_at.isoformat()}, which has not come")
    return run
