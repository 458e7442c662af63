"""Retries: what goes into `retry`."""

from __future__ import annotations

from collections.abc import Iterable

from streamsched.define.quantity import Duration, duration, whole
from streamsched.domain.errors import InvalidDefinitionError
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
