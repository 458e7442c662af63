"""CDAP's one timeout, `timeoutMillis`: from the first event, over accumulation and constraints. Here it limits each of
these on its own: the accumulation (our `within`, which starts over) and the wait on constraints.

It is a day where it is left out, and the largest number there is for a schedule without limits. It leaves the trigger
alone when one event satisfies it (a stream's growth is one to CDAP, whose poller decides), and when it minds the clock
itself, which none of CDAP's does. A wait on constraints
that `timeoutMillis` would not set so, as schedules of our own have it, is said by `timeout` (a duration) besides.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from streamsched.codec.reading import Fields
from streamsched.domain.duration import duration_text, parse_duration
from streamsched.domain.schedule import Schedule
from streamsched.domain.trigger import (
    AllOf,
    AtLeast,
    OnExpiry,
    Per,
    StreamGrowth,
    Timed,
    Trigger,
    Within,
    children,
    leaves,
    needed,
)

#: What `timeoutMillis` is when it is left out.
DEFAULT: Final = timedelta(days=1)
#: What it is for a schedule that waits for ever: the largest number CDAP reads. Any that is too long to count is one.
FOREVER: Final = 2**63 - 1

_MILLISECOND: Final = timedelta(milliseconds=1)


def to_json(schedule: Schedule) -> dict[str, Any]:
    """`timeoutMillis`, and `timeout` where it alone would be read as something else."""
    timeout = schedule.timeout
    if timeout is None:
        return {"timeoutMillis": FOREVER}
    said = {"timeoutMillis": max(1, timeout // _MILLISECOND)}
    if timeout % _MILLISECOND or _limits(schedule.trigger):
        return {**said, "timeout": duration_text(timeout)}
    return said


def trigger_shown(schedule: Schedule) -> Trigger:
    """The trigger without the limit that `timeoutMillis` says."""
    match schedule.trigger:
        case Within(trigger=inner, duration=span, then=OnExpiry.RESET) if (
            span == schedule.timeout and not span % _MILLISECOND and _limits(inner)
        ):
            return inner
        case trigger:
            return trigger


def read(fields: Fields, trigger: Trigger) -> tuple[Trigger, timedelta | None]:
    """The trigger with its limit, and how long a job may wait on constraints.

    Raises:
        DecodeError: neither a number of milliseconds from 1 nor a duration; the path names the field.
    """
    amount = fields.optional_integer("timeoutMillis", minimum=1)
    said = fields.optional_text("timeout")
    if said is not None:
        return trigger, parse_duration(said, fields.at("timeout"))
    timeout = DEFAULT if amount is None else _counted(amount)
    if timeout is None or not _limits(trigger):
        return trigger, timeout
    return Within(trigger, timeout), timeout


def _counted(amount: int) -> timedelta | None:
    return None if amount > timedelta.max // _MILLISECOND else amount * _MILLISECOND


def _limits(trigger: Trigger) -> bool:
    """Whether `timeoutMillis` limits its accumulation: CDAP could say it, and it takes more than one event."""
    several = _wants_several(trigger) or any(
        needed(leaf) > 1 for leaf in leaves(trigger) if not isinstance(leaf, StreamGrowth)
    )
    return several and not _minds_the_clock(trigger)


def _wants_several(trigger: Trigger) -> bool:
    """Whether more than one of its triggers must hold, at any depth."""
    match trigger:
        case AllOf(triggers=(_, _, *_)):
            return True
        case AtLeast(count=count) if count > 1:
            return True
        case _:
            return any(_wants_several(child) for child in children(trigger))


def _minds_the_clock(trigger: Trigger) -> bool:
    return isinstance(trigger, Timed | Per) or any(_minds_the_clock(child) for child in children(trigger))
