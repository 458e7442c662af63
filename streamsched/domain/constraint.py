"""Run constraints as their owner defines them: what a satisfied job waits for. `admission` judges them.

Each constraint says `wait` (hold the job) or abort (end it).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from streamsched.domain.duration import duration_text
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.group import Group
from streamsched.domain.load import Load
from streamsched.domain.plugin import PlugIn
from streamsched.domain.pool import Pool
from streamsched.domain.rate import Rate
from streamsched.domain.window import TimeWindow


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Fewer than `limit` runs of the program are non-terminal, whoever started them. Default: abort, as CDAP's."""

    limit: int
    wait: bool = False

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InvalidDefinitionError("$.limit", f"must be at least 1 but is {self.limit}")

    def __str__(self) -> str:
        return f"fewer than {self.limit} active runs"


@dataclass(frozen=True, slots=True)
class Delay:
    """At least `delay` has passed since the satisfaction. Always waits."""

    delay: timedelta

    def __post_init__(self) -> None:
        _positive("delay", self.delay)

    def __str__(self) -> str:
        return f"{duration_text(self.delay)} after the trigger"


@dataclass(frozen=True, slots=True)
class LastRun:
    """At least `interval` since a run of the program completed; an active run blocks, failed and killed ones do not."""

    interval: timedelta
    wait: bool = False

    def __post_init__(self) -> None:
        _positive("interval", self.interval)

    def __str__(self) -> str:
        return f"{duration_text(self.interval)} since the last completed run"


Constraint = Concurrency | Delay | Group | LastRun | Load | PlugIn | Pool | Rate | TimeWindow


def _positive(name: str, duration: timedelta) -> None:
    if duration <= timedelta(0):
        raise InvalidDefinitionError(f"$.{name}", f"must be positive but is {duration}")
