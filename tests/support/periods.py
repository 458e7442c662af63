"""The keys and periods of correlated events, read letter by letter for texts as the small world writes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from streamsched.domain.triggers.trigger import Per

_FORMATS: Final = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}


def period_of(per: Per, values: Mapping[str, str]) -> str:
    """The period a value names, as it is named everywhere; the values themselves without grains."""
    if per.grain is None:
        return "/".join(values[name] for name in per.by)
    return _start(_text(per, values), per.grain).strftime(_FORMATS[per.grain])


def keys_of(per: Per, values: Mapping[str, str]) -> list[str]:
    """The keys that an event with these values counts under."""
    if not all(values.get(name) for name in per.by):
        return []
    if per.grain is None:
        return [period_of(per, values)]
    try:
        start = _start(_text(per, values), per.grain)
    except ValueError:
        return []
    if per.rolled_up_to is not None:
        return [start.strftime(_FORMATS[per.rolled_up_to])]
    return _periods(start, per.grain, per.fanned_out_to or per.grain)


def all_periods(per: Per, key: str) -> int:
    """How many finer periods a roll-up's key has."""
    assert per.grain is not None
    assert per.rolled_up_to is not None
    return len(_periods(_start(key, per.rolled_up_to), per.rolled_up_to, per.grain))


@cache
def _periods(start: datetime, coarse: str, fine: str) -> list[str]:
    """Hour by hour, those that have the same name as the coarser one that begins there."""
    found: list[str] = []
    name = start.strftime(_FORMATS[coarse])
    while start.strftime(_FORMATS[coarse]) == name:
        found.append(start.strftime(_FORMATS[fine]))
        start += timedelta(hours=1)
    return list(dict.fromkeys(found))


def _text(per: Per, values: Mapping[str, str]) -> str:
    """Of a day and an hour beside it, both together."""
    return "T".join(values[name] for name in per.by)


def _start(text: str, grain: str) -> datetime:
    return datetime.strptime(text.replace(" ", "T"), _FORMATS[grain])  # noqa: DTZ007 - wall-clock time of no zone
