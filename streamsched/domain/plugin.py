"""Constraints that others write: what they are asked, and what they said.

A plug-in is found by the entry-point group `streamsched.constraints`: a function from its configuration to a function
from a `Question` to a verdict (`domain.admission`). It is asked outside of rulings, in a thread of its own and for a
short time; a ruling goes by what it said last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from streamsched.domain.group import check_group_name
from streamsched.domain.names import ProgramRef, ScheduleRef

#: An answer that is older says nothing any more, unless it named a time that has not come.
FRESH: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class PlugIn:
    """The plug-in says that the job may run.

    Attributes:
        config: its configuration as canonical JSON, so that equal ones are equal.
        wait: False: a job that it would hold back ends.
    """

    name: str
    config: str = "{}"
    wait: bool = True

    def __post_init__(self) -> None:
        check_group_name(self.name, "$.name")

    @property
    def settings(self) -> Mapping[str, Any]:
        """The configuration as values."""
        return json.loads(self.config)

    def __str__(self) -> str:
        return f"plug-in {self.name}" + ("" if self.config == "{}" else f" {self.config}")


@dataclass(frozen=True, slots=True)
class Question:
    """What a plug-in is told. Times UTC.

    Attributes:
        key: what the job was satisfied for; "" for a schedule that does not correlate.
        active_runs: ids of the program's non-terminal runs, oldest first, whoever started them.
        last_completed_at: end of the program's latest completed run.
    """

    job: str
    schedule: ScheduleRef
    program: ProgramRef
    key: str
    satisfied_at: datetime
    now: datetime
    active_runs: tuple[str, ...] = ()
    last_completed_at: datetime | None = None


def canonical(config: Mapping[str, Any]) -> str:
    """A configuration as the text that is kept.

    Raises:
        TypeError, ValueError: it is nothing JSON can say.
    """
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
