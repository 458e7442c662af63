"""Runs, with their metrics and commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.events.native import dumps
from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_commit import RunCommit
from streamsched.domain.jobs.run_metrics import NUMBERS, RunMetrics
from streamsched.domain.json_value import Json
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.programs.driver import Driver

_JOB: Final = About("default.flights.weekly.1.1")
_RUN: Final = About("default.flights.weekly.1.1.r1")
_ENDED: Final = frozenset(each for each in RunState if each.is_terminal)
_COUNT: Final = About(100, least=0)

METRICS: Final = JsonShape(RunMetrics, about={name: About(0, least=0) for name in NUMBERS}, text="Of a Spark run.")
COMMIT: Final = JsonShape(RunCommit, outside=("run",), about={"partitions": _COUNT, "rows": _COUNT, "bytes": _COUNT})
DRIVER: Final = JsonShape(
    Driver,
    about={
        "id": About("driver-20260101120000-0000"),
        "master": About("spark://there:7077"),
        "logs": About("http://there:8081/logPage/?driverId=driver-20260101120000-0000&logType=stderr"),
    },
    text="Of a Spark program that runs in a cluster.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run.

    Attributes:
        job, schedule: None of one that was started without a job.
        commits, generation, rerun_of, trace: of a single run, not in lists.
        fence: whether a run that was given up may still commit; None of others.
        start: how the process of a Python program was started: `warm`, or `cold: ` and the reason.
    """

    id: Annotated[str, _RUN]
    job: Annotated[str | None, _JOB]
    schedule: ScheduleRef | None
    program: ProgramRef
    attempt: int
    arguments: Annotated[Mapping[str, str], About("2026-03-01")]
    state: RunState
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: Annotated[int | None, About(schema={"type": "integer", "examples": [0]})]
    failure: Failure | None
    bundle: str | None
    generation: int | None
    commits: Annotated[Sequence[RunCommit], About(shape=COMMIT)]
    fence: str | None
    runner: str | None
    start: str | None
    heartbeat_at: datetime | None
    log_path: str | None
    driver: Annotated[Driver | None, About(shape=DRIVER)]
    rerun_of: str | None
    muted: Annotated[bool, About(False)]
    trace: Annotated[str | None, About("4bf92f3577b34da6a3ce929d0e0e4736")]
    metrics: Annotated[RunMetrics | None, About(shape=METRICS)]

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in _ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The end of a run that is asked for. `at_once`: without time to clean up."""

    reason: Annotated[str, REASON] = ""
    at_once: Annotated[bool, About(False)] = False


RUN: Final = JsonShape(Run)
KILL: Final = JsonShape(Kill)


def stored_metrics(value: Json) -> RunMetrics | None:
    """Metrics that were stored, also by a release with other numbers; None when there is nothing readable."""
    try:
        return None if value is None else METRICS.take(value)
    except InvalidError:
        return None


def stored_commit(commit: RunCommit) -> tuple[str, str]:
    """The name and the text of a commit as a member of the stored object."""
    return f"{commit.dataset} {commit.commit}", dumps(COMMIT.write(commit)).decode()


def commits_of(stored: Mapping[str, Json] | None) -> list[Mapping[str, Json]]:
    """The commits of a stored object, oldest first, as an answer has them."""
    found: list[Mapping[str, Json]] = [each for each in (stored or {}).values() if isinstance(each, dict)]
    return sorted(found, key=lambda each: (str(each.get("at")), str(each.get("commit"))))
