"""CDAP's `timeoutMillis`, which CDAP counts from the first event over accumulation and constraints. Here it limits each
separately: the accumulation (a `within` that resets) and the wait on constraints.

It defaults to a day; the largest number means no limit. It does not limit the accumulation of a trigger that a single
event satisfies (a stream's growth counts as one, because CDAP's poller decides), or that contains timed nodes or
correlation, which CDAP does not have. A wait on constraints that `timeoutMillis` cannot express alone is written as
`timeout` (a duration) too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from streamsched.codec.json.reading import Fields
from streamsched.domain.limits import LONGEST, MOST, check_count
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.time.duration import duration_text, parse_duration
from streamsched.domain.triggers.trigger import (
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
    needed_amount,
)

#: The default of `timeoutMillis`.
DEFAULT: Final = timedelta(days=1)
#: No limit: the largest number CDAP reads, or a larger one rounded up by a client.
FOREVER: Final = MOST

_MILLISECOND: Final = timedelta(milliseconds=1)


def to_json(schedule: Schedule) -> dict[str, Any]:
    """`timeoutMillis`, and `timeout` when `timeoutMillis` alone would be decoded differently."""
    timeout = schedule.timeout
    if timeout is None:
        return {"timeoutMillis": FOREVER}
    found = {"timeoutMillis": max(1, timeout // _MILLISECOND)}
    if timeout % _MILLISECOND or _limits(schedule.trigger):
        return {**found, "timeout": duration_text(timeout)}
    return found


def trigger_shown(schedule: Schedule) -> Trigger:
    """The trigger without the `within` that stands for `timeoutMillis`."""
    match schedule.trigger:
        case Within(trigger=inner, duration=span, then=OnExpiry.RESET) if (
            span == schedule.timeout and not span % _MILLISECOND and _limits(inner)
        ):
            return inner
        case trigger:
            return trigger


def read(fields: Fields, trigger: Trigger) -> tuple[Trigger, timedelta | None]:
    """The trigger with its limit, and the timeout of the wait on constraints.

    Raises:
        DecodeError: neither a number of milliseconds from 1 nor a duration; the path names the field.
        InvalidDefinitionError: it is longer than `domain.limits` allows, and not `FOREVER`.
    """
    amount = fields.optional_integer("timeoutMillis", minimum=1)
    text = fields.optional_text("timeout")
    if text is not None:
        return trigger, parse_duration(text, fields.path_of("timeout"))
    timeout = DEFAULT if amount is None else _millis(amount, fields.path_of("timeoutMillis"))
    if timeout is None or not _limits(trigger):
        return trigger, timeout
    return Within(trigger, timeout), timeout


def _millis(amount: int, path: str) -> timedelta | None:
    if amount >= FOREVER:
        return None
    check_count(amount, path, most=LONGEST // _MILLISECOND)
    return amount * _MILLISECOND


def _limits(trigger: Trigger) -> bool:
    """Whether `timeoutMillis` limits the accumulation: CDAP has such a trigger, and it needs more than one event."""
    several = _wants_several(trigger) or any(
        needed_amount(leaf) > 1 for leaf in leaves(trigger) if not isinstance(leaf, StreamGrowth)
    )
    return several and not _is_timed(trigger)


def _wants_several(trigger: Trigger) -> bool:
    """Whether more than one of its triggers must hold, at any depth."""
    match trigger:
        case AllOf(triggers=(_, _, *_)):
            return True
        case AtLeast(count=count) if count > 1:
            return True
        case _:
            return any(_wants_several(child) for child in children(trigger))


def _is_timed(trigger: Trigger) -> bool:
    return isinstance(trigger, Timed | Per) or any(_is_timed(child) for child in children(trigger))
