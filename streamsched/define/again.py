"""What becomes of failures: what goes into `retry` and `pause_after`."""

from __future__ import annotations

from collections.abc import Iterable

from streamsched.define.quantity import Duration, duration, whole
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.pause import PauseAfter
from streamsched.domain.retry import Failure, Retry


def retry(
    attempts: int,
    *,
    on: Iterable[Failure | str] = tuple(Failure),
    delay: Duration = "30s",
    longest: Duration = "1h",
) -> Retry:
    """Up to `attempts` runs of a job, as long as they fail.

    >>> retry(3, on=["lost", "crash"], delay="1m").attempts
    3

    Args:
        attempts: the first run included.
        on: `"lost"` (its machine or runner went away), `"crash"` (a signal ended it), `"error"` (its own exit code),
            `"timeout"` (it ran longer than it may); left out, all of them.
        delay: the pause before the second attempt; each further one is twice as long, a little less by chance.
        longest: no pause is longer.

    Raises:
        InvalidDefinitionError: a number or duration that makes no sense, or no such failure.
    """
    known = {failure.value: failure for failure in Failure}
    wanted = (on,) if isinstance(on, str) else tuple(on)
    for name in wanted:
        if name not in known:
            raise InvalidDefinitionError("$.on", f"must be of {', '.join(Failure)} but has {name!r}")
    failures = frozenset(known[name] for name in wanted)
    return Retry(whole(attempts, "$.attempts"), failures, duration(delay, "$.delay"), duration(longest, "$.longest"))


def failures(amount: int, *, keep: bool = True, lasting: Duration | None = None) -> PauseAfter:
    """After so many jobs in a row whose runs failed.

    >>> failures(3, lasting="1h").failures
    3

    Args:
        keep: what comes meanwhile counts, and waiting jobs wait; otherwise all of that is dropped.
        lasting: it is resumed after that; left out, somebody has to.

    Raises:
        InvalidDefinitionError: a number or duration that makes no sense.
    """
    return PauseAfter(whole(amount, "$.failures"), keep, None if lasting is None else duration(lasting, "$.lasting"))
