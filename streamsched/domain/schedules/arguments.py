"""The arguments of a job's run: program defaults, overridden by schedule properties, overridden by those a person gave
with a submission; plus facts of the trigger.

Trigger facts have the prefix `trigger.` and never overwrite other arguments:

| argument                        | of which jobs | value                                                            |
|---------------------------------|---------------|------------------------------------------------------------------|
| `job`, `schedule`, `satisfied_at` | all         | ids (`schedule` not of a submission to a program); an instant    |
| `key`                           | `per`         | the correlation key                                              |
| `logical_start_time`            | clocks        | the latest tick's due time                                       |
| `program`, `run`, `outcome`     | programs      | of the last run that failed or was killed, else of the last run  |
| `error`, `log_tail`             | programs      | of the same run: its reason and the end of its log; else ""      |

A rerun has the facts of the job it repeats, except `job`.

`error` has at most 500 characters, `log_tail` the last 2,000 of the log, and neither has control characters other than
tab and line feed. Other than those characters, `log_tail` is what the program wrote.

CDAP's argument `logical.start.time` is set too: milliseconds since 1970 as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from streamsched.domain.events.event import LOG_TAIL, Outcome, ProgramReached, Ticked
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.domain.schedules.template import printable

PREFIX: Final = "trigger."
#: CDAP's argument: the due time of the latest tick; without a tick, when the trigger was satisfied.
LOGICAL_START_TIME: Final = "logical.start.time"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_UNSUCCESSFUL: Final = (Outcome.FAILED, Outcome.KILLED)
#: Most characters of an error or a run id; external emitters may send longer ones.
_ERROR: Final = 500


def arguments(program: Program, schedule: Schedule, ready: ReadyJob) -> Mapping[str, str]:
    """Schedule properties override program defaults, a submission's arguments override both; trigger facts are added.
    Times as ISO 8601, UTC.
    """
    by_person = {} if ready.submission is None else ready.submission.arguments
    given = {**program.arguments, **schedule.properties, **by_person}
    return {**dict(_facts(ready)), **given}


def _facts(ready: ReadyJob) -> Iterator[tuple[str, str]]:
    yield f"{PREFIX}job", ready.id
    if ready.schedule is not None:
        yield f"{PREFIX}schedule", str(ready.schedule)
    yield f"{PREFIX}satisfied_at", ready.logical_at.isoformat()
    if ready.key:
        yield f"{PREFIX}key", ready.key
    ticks = [
        event.fact.due_at for part in ready.contributions for event in part.events if isinstance(event.fact, Ticked)
    ]
    yield LOGICAL_START_TIME, str((max(ticks, default=ready.logical_at) - _EPOCH) // _MILLISECOND)
    if ticks:
        yield f"{PREFIX}logical_start_time", max(ticks).isoformat()
    yield from _of_program(ready)


def _of_program(ready: ReadyJob) -> Iterator[tuple[str, str]]:
    """Facts of the latest run by event time; an unsuccessful run takes precedence over successful ones."""
    reached = [
        (event.fact.outcome in _UNSUCCESSFUL, event.time, event.fact)
        for part in ready.contributions
        for event in part.events
        if isinstance(event.fact, ProgramReached)
    ]
    if reached:
        _, _, last = max(reached, key=lambda each: each[:2])
        yield f"{PREFIX}program", str(last.program)
        yield f"{PREFIX}run", printable(last.run_id[:_ERROR])
        yield f"{PREFIX}outcome", last.outcome.value
        yield f"{PREFIX}error", printable((last.error or "")[:_ERROR])
        yield f"{PREFIX}log_tail", printable(last.log_tail[-LOG_TAIL:])
