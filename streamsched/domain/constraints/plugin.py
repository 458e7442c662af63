"""Constraints by plug-in: the constraint, and the question a plug-in answers.

Plug-ins are entry points of the group `streamsched.constraints`: a function from a configuration to a function from a
`Question` to a verdict (`domain.decisions.admission`). A plug-in is called outside of the decision transaction, in its
own thread and with a timeout; a decision uses its latest verdict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from streamsched.domain.constraints.group import check_group_name
from streamsched.domain.jobs.job import Contribution
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef

#: Maximum age of a usable verdict, unless it names a time in the future.
FRESH: Final = timedelta(seconds=5)
#: Runs of `Question.history`, at most.
MOST_PAST_RUNS: Final = 100


@dataclass(frozen=True, slots=True)
class PlugIn:
    """The plug-in says that the job may run.

    Attributes:
        config: its configuration as canonical JSON, so that equal configurations compare equal.
        wait: False: a job that it would hold ends.
    """

    name: str
    config: str = "{}"
    wait: bool = True

    def __post_init__(self) -> None:
        check_group_name(self.name, "$.name")

    @property
    def settings(self) -> Mapping[str, Any]:
        """The parsed configuration."""
        return json.loads(self.config)

    def __str__(self) -> str:
        return f"plug-in {self.name}" + ("" if self.config == "{}" else f" {self.config}")


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of the program, as it is now. Times are UTC."""

    id: str
    state: RunState
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Question:
    """The input of a plug-in, with all that CDAP's `ConstraintCheckContext` has. Times are UTC.

    Attributes:
        key: the job's correlation key; "" for a schedule that does not correlate.
        active_runs: ids of the program's non-terminal runs, oldest first, manual runs included.
        last_completed_at: end of the program's latest completed run.
        history: the program's newest runs, newest first, active ones included; at most `MOST_PAST_RUNS`.
        contributions: the events that started the job, for each leaf of the trigger.
    """

    job: str
    schedule: ScheduleRef
    program: ProgramRef
    key: str
    satisfied_at: datetime
    now: datetime
    active_runs: tuple[str, ...] = ()
    last_completed_at: datetime | None = None
    history: tuple[PastRun, ...] = ()
    contributions: tuple[Contribution, ...] = ()


def canonical(config: Mapping[str, Any]) -> str:
    """A configuration as canonical JSON.

    Raises:
        TypeError, ValueError: it cannot be encoded as JSON.
    """
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
