"""The correlation key that a person names by its columns, as an event with these values would have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.limits import EARLIEST
from streamsched.domain.names import DEFAULT_NAMESPACE, EventName
from streamsched.domain.triggers.correlation import Per, event_slices
from streamsched.domain.triggers.trigger import Trigger, children, run_of


def named_key(trigger: Trigger, columns: Mapping[str, str]) -> str:
    """The key of the accumulation for these values, one for each column of a `per`; "" for a trigger that does not
    correlate, and for one whose keys are runs: what a person asks for descends from none. Inputs that correlate by
    other columns have the same keys, so the columns of any of them do.

    >>> from streamsched.domain.triggers.trigger import CustomEvent
    >>> named_key(Per(CustomEvent(EventName("default", "landed")), ("date",)), {"date": "2013-01-01"})
    '2013-01-01'

    Raises:
        InvalidError: the columns are not those of the key, a value names no period, or several keys.
    """
    pers = tuple(_pers(trigger))
    if not pers:
        if columns:
            raise InvalidError("$.key", "is given, but the schedule's trigger has no key: it has no `per`")
        return ""
    if (ancestor := run_of(trigger)) is not None:
        if columns:
            raise InvalidError("$.key", f"is given, but the keys of the schedule are runs of {ancestor}")
        return ""
    wanted = " or ".join(sorted({" and ".join(per.by) for per in pers}))
    if not columns:
        raise InvalidError("$.key", f"is missing: the schedule has one accumulation for each {wanted}")
    per = next((per for per in pers if set(per.by) == columns.keys()), None)
    if per is None:
        raise InvalidError("$.key", f"names {' and '.join(sorted(columns))}, but the schedule's key is {wanted}")
    event = Event("key", "key", EARLIEST, CustomHappened(EventName(DEFAULT_NAMESPACE, "key"), columns))
    found = [key for key, _, _ in event_slices(per, event)]
    if not found:
        raise InvalidError("$.key", f"names no {per.grain or 'value'}: {_shown(columns)}")
    if len(found) > 1:
        raise InvalidError(
            "$.key", f"{_shown(columns)} is {len(found)} keys, {found[0]} to {found[-1]}; name one by another column"
        )
    return found[0]


def _pers(trigger: Trigger) -> Iterator[Per]:
    if isinstance(trigger, Per):
        yield trigger
    for child in children(trigger):
        yield from _pers(child)


def _shown(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value!r:.60}" for name, value in columns.items())
