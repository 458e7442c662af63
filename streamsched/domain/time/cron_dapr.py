"""Cron in the dialect of Dapr's jobs API (robfig/cron).

Exactly six fields, seconds first; `?` is `*`; steps may exceed their field; empty items of a list are ignored. When
neither day field has a star the two are alternatives; a step of more than one removes the star. `@daily` and the other
descriptors, `@every 90s`, and a zone prefix: `TZ=Europe/Berlin 0 0 4 * * *`. Error texts are those of Dapr.

Refused, where Dapr loops: days that never match, and intervals of less than a millisecond.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.time.cron_days import CronDays, Numbered, Weekdays
from streamsched.domain.time.cron_fields import CronFields, TimesOfDay
from streamsched.domain.time.cron_term import DAY, HOUR, MINUTE, MONTH, SECOND, Field, refuse, sort_distinct, weekday
from streamsched.domain.time.duration import parse_go_duration

_DESCRIPTORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "@yearly": "0 0 0 1 1 *",
        "@annually": "0 0 0 1 1 *",
        "@monthly": "0 0 0 1 * *",
        "@weekly": "0 0 0 * * 0",
        "@daily": "0 0 0 * * *",
        "@midnight": "0 0 0 * * *",
        "@hourly": "0 0 * * * *",
    }
)
_EVERY: Final = "@every "
_SHORTEST: Final = timedelta(milliseconds=1)
_ZONE = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S*)\s*(?P<rest>.*)", re.DOTALL)

_WEEKDAY: Final = weekday(0, 6)
_FIELDS: Final = (SECOND, MINUTE, HOUR, DAY, MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class _Values:
    numbers: frozenset[int]
    starred: bool


def split_zone(expression: str) -> tuple[str | None, str]:
    """The zone prefix of an expression, if any, and the rest.

    >>> split_zone("CRON_TZ=Asia/Tokyo 0 0 4 * * *")
    ('Asia/Tokyo', '0 0 4 * * *')
    """
    matched = _ZONE.fullmatch(expression.strip())
    return (matched["zone"], matched["rest"]) if matched else (None, expression.strip())


def parse_dapr(expression: str) -> CronFields | timedelta:
    """Parses an expression, or the interval of `@every`; a zone prefix is ignored (see `split_zone`).

    Raises:
        InvalidDefinitionError: a field is invalid; with Dapr's message.
    """
    zone, spec = split_zone(expression)
    if not spec:
        refuse("empty spec string" if zone is None else f"'{expression}' names a zone, but no schedule follows it")
    if spec.startswith(_EVERY):
        if zone is not None:
            refuse(f"'{expression}' names a zone, but an interval has none")
        return _interval(spec)
    if spec.startswith("@"):
        if spec not in _DESCRIPTORS:
            refuse(f"unrecognized descriptor: {spec} (known: {', '.join(_DESCRIPTORS)}, @every)")
        spec = _DESCRIPTORS[spec]
    parts = spec.split()
    if len(parts) != 6:
        refuse(f"expected exactly 6 fields, found {len(parts)}: [{' '.join(parts)}]")
    seconds, minutes, hours, days, months, weekdays = (
        _values(part, field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    return CronFields(
        TimesOfDay(sort_distinct(hours.numbers), sort_distinct(minutes.numbers), sort_distinct(seconds.numbers)),
        CronDays.from_rules(
            [Numbered(days.numbers)],
            [Weekdays(weekdays.numbers)],
            either=not days.starred and not weekdays.starred,
            months=months.numbers,
        ),
        starred_minute=minutes.starred,
    )


def _interval(spec: str) -> timedelta:
    text = spec.removeprefix(_EVERY)
    try:
        interval = parse_go_duration(text)
    except InvalidDefinitionError as exc:
        raise InvalidDefinitionError("$", f"failed to parse duration {spec}: {exc.reason}") from exc
    if interval < _SHORTEST:
        refuse(f"'{spec}' must be at least one millisecond")
    return interval


def _values(text: str, field: Field) -> _Values:
    terms = [_term(term, field) for term in text.split(",") if term]
    if not terms:
        refuse(f"'{text}' names no {field.noun}, so it could never match")
    return _Values(frozenset[int]().union(*(each.numbers for each in terms)), any(each.starred for each in terms))


def _term(term: str, field: Field) -> _Values:
    span, *steps = term.split("/")
    first, *lasts = span.split("-")
    if len(steps) > 1:
        refuse(f"too many slashes: {term}")
    step = _integer(steps[0]) if steps else 1
    starred = first in ("*", "?")
    if starred:
        low, high = field.lowest, field.highest
    elif len(lasts) > 1:
        refuse(f"too many hyphens: {term}")
    else:
        low = _value(first, field)
        high = _value(lasts[0], field) if lasts else field.highest if steps else low
    if low < field.lowest:
        refuse(f"beginning of range ({low}) below minimum ({field.lowest}): {term}")
    if high > field.highest:
        refuse(f"end of range ({high}) above maximum ({field.highest}): {term}")
    if low > high:
        refuse(f"beginning of range ({low}) beyond end of range ({high}): {term}")
    if step == 0:
        refuse(f"step of range should be a positive number: {term}")
    return _Values(frozenset(range(low, high + 1, step)), starred and step == 1)


def _value(text: str, field: Field) -> int:
    return field.names.index(text.upper()) + field.lowest if text.upper() in field.names else _integer(text)


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        refuse(f"failed to parse int from {text}")
    number = int(text)
    return number if number >= 0 else refuse(f"negative number ({number}) not allowed: {text}")
