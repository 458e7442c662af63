"""Deadlines, for the parameter `deadlines` of a schedule.

>>> print(finish_by("06:00", "Europe/Berlin", then="cancel"))
finish by 06:00 Europe/Berlin
"""

from __future__ import annotations

import re
from datetime import time

from streamsched.define.units import Duration, duration, time_of_day
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind, OnMiss

#: `"warn"`, `"cancel"`, or the program to start or its name.
Then = OnMiss | str | ProgramRef


def start_by(limit: Duration | time, zone: str | None = None, *, then: Then = "warn") -> Deadline:
    """A job must start within `"30m"` of its satisfaction, or by the first `"06:00"` after it in `zone`.

    Args:
        limit: a duration, or a time of day.
        zone: IANA zone of a time of day. Default: UTC.
        then: what happens when the deadline is missed. Always: it is recorded and event `deadline-missed` is emitted.
            `"cancel"`: the job and its active runs are ended. A program of the app: it is started with arguments under
            `deadline.` that describe the missed deadline.

    Raises:
        InvalidDefinitionError: the limit or the zone is invalid.
    """
    return _deadline(DeadlineKind.START, limit, zone, then)


def finish_by(limit: Duration | time, zone: str | None = None, *, then: Then = "warn") -> Deadline:
    """A run of the job must complete by then. Parameters and errors as of `start_by`."""
    return _deadline(DeadlineKind.FINISH, limit, zone, then)


def takes_at_most(limit: Duration, *, then: Then = "warn") -> Deadline:
    """Each run of the job must end within `limit`. With `then="cancel"` a longer run is ended and counts for `retry` as
    failed by `"timeout"`. Other parameters and errors as of `start_by`.
    """
    return _deadline(DeadlineKind.DURATION, limit, None, then)


def _deadline(promise: DeadlineKind, limit: Duration | time, zone: str | None, then: Then) -> Deadline:
    action, program = _action(then)
    if isinstance(limit, time) or (isinstance(limit, str) and re.fullmatch(r"\d{1,2}:\d{2}", limit)):
        return Deadline(promise, at=time_of_day(limit, "$.at"), zone=zone or "UTC", then=action, program=program)
    if zone is not None:
        raise InvalidDefinitionError("$.zone", f"needs a time of day as the limit, not {limit!r}")
    return Deadline(promise, duration(limit, "$.within"), then=action, program=program)


def _action(then: Then) -> tuple[OnMiss, str | None]:
    """The action and the name of the program to start, if any. A string that is not an action is a program's name."""
    if then in (OnMiss.WARN, OnMiss.CANCEL):
        return OnMiss(str(then)), None
    return OnMiss.START, then.name if isinstance(then, ProgramRef) else str(then)
