"""Reactions to failed runs, for the parameters `retry` and `pause_after` of a schedule."""

from __future__ import annotations

from collections.abc import Iterable

from streamsched.define.units import Duration, check_integer, duration
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.schedules.pause import PauseAfter
from streamsched.domain.schedules.retry import RETRIED, Retry


def retry(
    attempts: int,
    *,
    on: Iterable[Failure | str] = tuple(sorted(RETRIED)),
    delay: Duration = "30s",
    longest: Duration = "1h",
) -> Retry:
    """Retries a failed run of a job, with exponential backoff and jitter.

    >>> retry(3, on=["lost", "crash"], delay="1m").attempts
    3

    Args:
        attempts: most runs of the job, including the first one.
        on: the failures that are retried: `"lost"` (the machine or runner disappeared), `"crash"` (a signal ended the
            process), `"oom"` (its memory did not suffice), `"evicted"` (its cluster took its place for another),
            `"cancelled"` (a user ended its driver in the cluster), `"error"` (any other nonzero exit code),
            `"timeout"` (the run took too long). Default: all but `"cancelled"`.
        delay: time before the second run. It doubles for each further run and is shortened at random.
        longest: upper limit of the delay.

    Raises:
        InvalidDefinitionError: a number, a duration or a failure is invalid.
    """
    known = {failure.value: failure for failure in Failure}
    names = (on,) if isinstance(on, str) else tuple(on)
    for name in names:
        if name not in known:
            raise InvalidDefinitionError("$.on", f"must be of {', '.join(Failure)} but has {name!r}")
    failures = frozenset(known[name] for name in names)
    return Retry(
        check_integer(attempts, "$.attempts"), failures, duration(delay, "$.delay"), duration(longest, "$.longest")
    )


def failures(amount: int, *, keep: bool = True, lasting: Duration | None = None) -> PauseAfter:
    """Pauses a schedule after `amount` consecutive failed jobs.

    >>> failures(3, lasting="1h").failures
    3

    Args:
        amount: number of consecutive failed jobs.
        keep: whether events count and jobs wait during the pause. False: events and waiting jobs are dropped.
        lasting: duration of the pause. Default: until the schedule is resumed by a command.

    Raises:
        InvalidDefinitionError: the number or the duration is invalid.
    """
    return PauseAfter(
        check_integer(amount, "$.failures"), keep, None if lasting is None else duration(lasting, "$.lasting")
    )
