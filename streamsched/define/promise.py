"""Deadlines: what goes into `deadlines`.

>>> print(finish_by("06:00", "Europe/Berlin", then="cancel"))
finish by 06:00 Europe/Berlin
"""

from __future__ import annotations

import re
from datetime import time

from streamsched.define.quantity import Duration, duration, time_of_day
from streamsched.domain.deadline import Deadline, OnMiss, Promise
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import ProgramRef

#: `"warn"`, `"cancel"`, or the program to start.
Then = OnMiss | str | ProgramRef


def start_by(limit: Duration | time, zone: str | None = None, *, then: Then = "warn") -> Deadline:
    """A job is begun within `"30m"` of its satisfaction, or by the first `"06:00"` after it in `zone` (or UTC).

    Args:
        limit: a duration, or a time of day.
        zone: of a time of day.
        then: `"warn"`: it is recorded, and event `deadline-missed` goes out, as for all of them; `"cancel"`: the job
            and what runs of it ends; a program of the app: it is started, and told under `deadline.` what was missed.

    Raises:
        InvalidDefinitionError: a limit or zone that makes no sense.
    """
    return _promised(Promise.START, limit, zone, then)


def finish_by(limit: Duration | time, zone: str | None = None, *, then: Then = "warn") -> Deadline:
    """A run of the job has completed by then; else as `start_by`."""
    return _promised(Promise.FINISH, limit, zone, then)


def takes_at_most(limit: Duration, *, then: Then = "warn") -> Deadline:
    """Each run of the job takes no longer; cancelled, it has failed by `"timeout"` for `retry`. Else as `start_by`."""
    return _promised(Promise.DURATION, limit, None, then)


def _promised(promise: Promise, limit: Duration | time, zone: str | None, then: Then) -> Deadline:
    answer, program = _answer(then)
    if isinstance(limit, time) or (isinstance(limit, str) and re.fullmatch(r"\d{1,2}:\d{2}", limit)):
        return Deadline(promise, at=time_of_day(limit, "$.at"), zone=zone or "UTC", then=answer, program=program)
    if zone is not None:
        raise InvalidDefinitionError("$.zone", f"goes with a time of day, not with {limit!r}")
    return Deadline(promise, duration(limit, "$.within"), then=answer, program=program)


def _answer(then: Then) -> tuple[OnMiss, str | None]:
    """What happens, and the program that is started; a text that is no answer is the name of one."""
    if then in (OnMiss.WARN, OnMiss.CANCEL):
        return OnMiss(str(then)), None
    return OnMiss.START, then.name if isinstance(then, ProgramRef) else str(then)
