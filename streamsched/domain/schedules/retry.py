"""Retries: after which failures a job's run is repeated, how often, and with which backoff.

    >>> policy = Retry(3, frozenset({Failure.ERROR}), delay=timedelta(seconds=30))
    >>> policy.allows(Failure.ERROR, attempt=2), policy.allows(Failure.ERROR, attempt=3), policy.allows(Failure.LOST, 1)
    (True, False, False)

All attempts are one execution: it keeps its slots and counts as active between attempts, and only the end of the last
attempt is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from streamsched.domain.backoff import double_pause, shorten_pause
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.limits import check_count, check_duration

MOST_ATTEMPTS: Final = 100
#: Stop reason of a run that exceeded its maximum duration; distinguishes it from a user's request.
OVERDUE: Final = "it runs longer than it may"
#: A pause is shortened by up to this fraction, so that runs that failed together are not repeated together.
_JITTER: Final = 0.25


#: What a policy retries that does not say: all but the request of a user to end the driver.
RETRIED: Final = frozenset(Failure) - {Failure.CANCELLED}


@dataclass(frozen=True, slots=True)
class Retry:
    """Up to `attempts` runs of a job, the first included, as long as they fail with one of `on`.

    Attributes:
        delay: the pause before the second attempt; doubles with each further one.
        longest: maximum pause.
    """

    attempts: int
    on: frozenset[Failure] = RETRIED
    delay: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        check_count(self.attempts, "$.attempts", most=MOST_ATTEMPTS)
        check_duration(self.delay, "$.delay", zero=True)
        check_duration(self.longest, "$.longest", zero=True)
        if self.longest < self.delay:
            raise InvalidDefinitionError("$.longest", f"must not be shorter than the delay, {self.delay}")
        if not self.on:
            raise InvalidDefinitionError("$.on", "must name a failure")

    def allows(self, failure: Failure, attempt: int) -> bool:
        """Whether another attempt follows `attempt` (counted from 1), which failed with `failure`."""
        return failure in self.on and attempt < self.attempts

    def pause(self, run: str, attempt: int) -> timedelta:
        """The pause between the end of `run`, the given attempt, and the next one. Deterministic for a run."""
        return shorten_pause(double_pause(self.delay, attempt - 1, longest=self.longest), _JITTER, run)
