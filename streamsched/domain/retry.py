"""Retries: which failures of a run are worth another attempt of its job, how many, and after how long.

    >>> policy = Retry(3, frozenset({Failure.ERROR}), delay=timedelta(seconds=30))
    >>> policy.allows(Failure.ERROR, attempt=2), policy.allows(Failure.ERROR, attempt=3), policy.allows(Failure.LOST, 1)
    (True, False, False)

The next attempt is the same execution going on: it keeps its slots, counts as active while it pauses, and only the end
of the last one is announced.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final
from zlib import crc32

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.run import RunState

MOST_ATTEMPTS: Final = 100
#: What is said to a run that is past its deadline; by this it is told from what people say.
OVERDUE: Final = "it runs longer than it may"
#: A pause is shortened by up to this share of it, so that what failed together does not come back together.
_JITTER: Final = 0.25


class Failure(StrEnum):
    """Why a run failed: its machine or runner went away, a signal ended it that nobody here sent, it said so itself by
    its exit code, or it ran longer than it may.
    """

    LOST = "lost"
    CRASH = "crash"
    ERROR = "error"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Retry:
    """Up to `attempts` runs of a job, the first included, as long as they fail `on` these.

    Attributes:
        delay: the pause before the second attempt; each further one is twice as long.
        longest: no pause is longer.
    """

    attempts: int
    on: frozenset[Failure] = frozenset(Failure)
    delay: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise InvalidDefinitionError("$.attempts", f"must be 1 to {MOST_ATTEMPTS} but is {self.attempts}")
        if self.delay < timedelta(0):
            raise InvalidDefinitionError("$.delay", f"must not be negative but is {self.delay}")
        if self.longest < self.delay:
            raise InvalidDefinitionError("$.longest", f"must not be shorter than the delay, {self.delay}")
        if not self.on:
            raise InvalidDefinitionError("$.on", "must name a failure")

    def allows(self, failure: Failure, attempt: int) -> bool:
        """Whether another attempt follows `attempt` (counted from 1), which ended so."""
        return failure in self.on and attempt < self.attempts

    def pause(self, run: str, attempt: int) -> timedelta:
        """Between the end of `run`, which was this attempt, and the next. The same for the same run, whoever asks."""
        room = self.longest / self.delay if self.delay else 0.0
        factor = 2 ** min(attempt - 1, 60)
        pause = self.longest if factor > room > 0 else self.delay * factor
        share = crc32(run.encode()) / 0xFFFFFFFF
        return pause * (1 - _JITTER * share)


def failure_of(state: RunState, exit_code: int | None, *, overdue: bool = False) -> Failure | None:
    """The class of an end; None: it was no failure, or somebody wanted it. `overdue`: it was asked to end for that."""
    match state:
        case RunState.KILLED | RunState.FAILED if overdue:
            return Failure.TIMEOUT
        case RunState.LOST:
            return Failure.LOST
        case RunState.FAILED:
            return Failure.CRASH if exit_code is not None and exit_code < 0 else Failure.ERROR
        case _:
            return None
