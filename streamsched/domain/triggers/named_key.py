"""The correlation key that a person names by its columns, as an event with these values would have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamsched.domain.errors import ClosedDayError, InvalidError
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keys.key_value import NoKey
from streamsched.domain.triggers.trigger import Trigger, correlations, run_of


def named_key(trigger: Trigger, columns: Mapping[str, str]) -> str:
    """The key of the accumulation for these values, one for each column of a `per`; "" for a trigger that does not
    correlate, and for one whose keys are runs: what a person asks for descends from none. Inputs that correlate by
    other columns have the same keys, so the columns of any of them do, and so does the name of the period that is the
    key, such as `day` of a roll-up.

    >>> from streamsched.domain.names import EventName
    >>> from streamsched.domain.triggers.trigger import CustomEvent
    >>> named_key(Per(CustomEvent(EventName("default", "landed")), ("date",)), {"date": "2013-01-01"})
    '2013-01-01'

    Raises:
        ClosedDayError: a calendar closes its day.
        InvalidError: the columns are not those of the key, a value names no period, or several keys.
    """
    pers = tuple(correlations(trigger))
    if not pers:
        if columns:
            raise InvalidError("$.key", "is given, but the schedule's trigger has no key: it has no `per`")
        return ""
    if (ancestor := run_of(trigger)) is not None:
        if columns:
            raise InvalidError("$.key", f"is given, but the keys of the schedule are runs of {ancestor}")
        return ""
    wanted = " or ".join(sorted({" and ".join(names) for per in pers for names in (per.by, *_of_period(per))}))
    if not columns:
        raise InvalidError("$.key", f"is missing: the schedule has one accumulation for each {wanted}")
    pers = tuple(replace(per, each=None, of=per.of if per.rolled_up_to else None) for per in pers)
    per = next((per for per in pers if set(per.by) == set(columns)), None)
    if per is None:
        per = next((per for per in pers if tuple(columns) in _of_period(per)), None)
        if per is None:
            raise InvalidError("$.key", f"names {' and '.join(sorted(columns))}, but the schedule's key is {wanted}")
        days = per.calendar if per.key_grain in (Grain.HOUR, Grain.DAY) else None
        alone = replace(per, rolled_up_to=None, fanned_out_to=None, of=None, calendar=None)
        per = replace(alone, by=tuple(columns), grain=per.key_grain, calendar=days)
    value = per.value(columns)
    if isinstance(value, NoKey):
        raise (ClosedDayError if value.closed else InvalidError)("$.key", f"is none: {value.why}")
    first, *others = per.cells(value)
    if others:
        count = f"{len(others) + 1} keys, {first} to {others[-1]}"
        raise InvalidError("$.key", f"{_format_columns(columns)} is {count}; name one by another column")
    return first


def zone_of_keys(trigger: Trigger) -> str:
    """The zone of the periods that are its keys, of the leftmost where they differ."""
    return next((per.zone for per in correlations(trigger)), NO_ZONE)


def _of_period(per: Per) -> tuple[tuple[str, ...], ...]:
    """The name of the period that is its key, where that is no value of one column."""
    if per.key_grain is None or (per.grain is per.key_grain and len(per.by) == 1):
        return ()
    return ((per.key_grain.value,),)


def _format_columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value!r:.60}" for name, value in columns.items())
