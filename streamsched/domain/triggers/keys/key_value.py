"""The value of a correlation key that the columns of an event give, or the reason why they give none.

    >>> key_value(("region", "date"), {"region": "EU", "date": "2013-01-07"})
    'EU/2013-01-07'
    >>> key_value(("day", "hour"), {"day": "2013-1-7", "hour": "5"}, Grain.HOUR)
    '2013-01-07T05'
    >>> key_value(("hour",), {"hour": "5am"}, Grain.HOUR).why
    "hour='5am' names no hour"

Without a grain the value consists of the texts as they are. With one it is the canonical text of a period
(`domain.time.period`). Several columns compose one period: the first gives the date as far as the others do not, as
`day` and `hour`, or `year`, `month`, `day` and `hour`. `period_columns` is the inverse.

Hive's folder of rows without a value (`HIVE_NULL`) is never the value of a column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from streamsched.domain.limits import abridge
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE, Period, period
from streamsched.domain.time.period_text import LONGEST, NoPeriod

SEPARATOR: Final = "/"
HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: Which columns can compose a period, from coarse to fine; any number of the last ones does.
COMPOSED: Final[Mapping[Grain, tuple[Grain, ...]]] = MappingProxyType(
    {
        Grain.HOUR: (Grain.YEAR, Grain.MONTH, Grain.DAY, Grain.HOUR),
        Grain.DAY: (Grain.YEAR, Grain.MONTH, Grain.DAY),
        Grain.WEEK: (Grain.YEAR, Grain.WEEK),
        Grain.MONTH: (Grain.YEAR, Grain.MONTH),
        Grain.YEAR: (Grain.YEAR,),
    }
)
#: Names of columns that say the grain of their values.
GRAIN_NAMES: Final[Mapping[str, Grain]] = MappingProxyType({**{each.value: each for each in Grain}, "date": Grain.DAY})
_BEFORE: Final = {Grain.MONTH: "-", Grain.DAY: "-", Grain.WEEK: "-W", Grain.HOUR: "T"}
#: Where a part of a canonical text ends; that of an hour or week at its end.
_ENDS: Final = {Grain.YEAR: 4, Grain.MONTH: 7, Grain.DAY: 10}
_NUMBER: Final = re.compile(r"\d{1,2}")
#: Characters of a value, and of a reason.
_SHOWN: Final = 40
_REASON: Final = 300


class NoKey(NamedTuple):
    """Why there is no key, in a few words with the column and its value; at most `_REASON` characters. `closed`:
    because a calendar closes its day.
    """

    why: str
    closed: bool = False


def key_value(
    by: tuple[str, ...], values: Mapping[str, str], grain: Grain | None = None, zone: str = NO_ZONE
) -> str | NoKey:
    """The value of the key of these columns. Total."""
    texts = tuple([values.get(name, "") for name in by])
    if "" in texts or HIVE_NULL in texts:
        return _no_value(by, values)
    if grain is None:
        return SEPARATOR.join([escaped_value(each) for each in texts])
    if max(map(len, texts)) > LONGEST:  # kept out of the cache
        return _explain_no_key(by, texts, grain, NoPeriod(f"it is longer than {LONGEST} characters"))
    return _period_key(by, texts, grain, zone)


def column_grains(grain: Grain, columns: int) -> tuple[Grain, ...]:
    """What each of so many columns gives of a period; the first gives all that is coarser, too."""
    return COMPOSED[grain][-columns:]


def period_columns(key: str, grains: Sequence[Grain]) -> list[str]:
    """The value of each column from the canonical text of a period: `["2013-01-07", "05"]`."""
    found: list[str] = []
    start = 0
    for grain in grains:
        end = _ENDS.get(grain, len(key))
        found.append(key[start:end].lstrip("W"))
        start = end + 1
    return found


def grain_by_name(by: Sequence[object], *, ordered: bool = True) -> Grain | None:
    """The grain that the names of the columns say, as `hour`, or `year`, `month` and `day`; None: they do not. With
    `ordered` only if they can compose a period.
    """
    found = [GRAIN_NAMES.get(name) if isinstance(name, str) else None for name in by]
    known = [grain for grain in found if grain is not None]
    if not known or len(known) < len(found):
        return None
    finest = min(known, key=lambda grain: grain.rank)
    return finest if not ordered or tuple(found) == column_grains(finest, len(found)) else None


@lru_cache(maxsize=16384)
def _period_key(by: tuple[str, ...], texts: tuple[str, ...], grain: Grain, zone: str) -> str | NoKey:
    found = _compose_period(by, texts, grain, zone) if len(by) > 1 else period(texts[0], grain, zone)
    match found:
        case Period():
            return found.key
        case NoPeriod():
            return _explain_no_key(by, texts, grain, found)
        case NoKey():
            return found


def _compose_period(by: tuple[str, ...], texts: tuple[str, ...], grain: Grain, zone: str) -> Period | NoPeriod | NoKey:
    first, *rest = column_grains(grain, len(by))
    start = period(texts[0], first)
    if isinstance(start, NoPeriod):
        return _explain_no_key(by[:1], texts[:1], first, start)
    text = start.key
    for name, value, part in zip(by[1:], texts[1:], rest, strict=True):
        number = value.strip()
        if part is not Grain.HOUR and not _NUMBER.fullmatch(number.removeprefix("W") if part is Grain.WEEK else number):
            return _explain_no_key((name,), (value,), part, NoPeriod("it is no number of one or two digits"))
        text += _BEFORE[part] + (number.removeprefix("W") if part is Grain.WEEK else number)
    found = period(text, grain, zone)
    if isinstance(found, NoPeriod) and not found.why:
        return _explain_no_key(by[-1:], texts[-1:], grain, found)
    return found


def _explain_no_key(by: Sequence[str], texts: Sequence[str], grain: Grain, none: NoPeriod) -> NoKey:
    why = none.why
    if not why and len(by) == 1 and len(COMPOSED[grain]) > 1 and _NUMBER.fullmatch(texts[0].strip()):
        why = f"it is a number without a date; name the columns of its {column_grains(grain, 2)[0]} too"
    given = ", ".join(f"{abridged_name(name)}={abridge(text, _SHOWN)}" for name, text in zip(by, texts, strict=True))
    return NoKey(f"{given} {'names' if len(by) == 1 else 'name'} no {grain}{': ' if why else ''}{why}"[:_REASON])


def _no_value(by: Sequence[str], values: Mapping[str, str]) -> NoKey:
    name = next(name for name in by if values.get(name) in (None, "", HIVE_NULL))
    if name not in values:
        return NoKey(f"{abridged_name(name)} is missing")
    return NoKey(f"{abridged_name(name)} is {'empty' if not values[name] else f'{HIVE_NULL}, which is no value'}")


def abridged_name(name: str) -> str:
    """A column in a reason."""
    return name if len(name) <= _SHOWN and name.isprintable() else abridge(name, _SHOWN)


def escaped_value(value: str) -> str:
    """Escapes separators and unprintable characters as in URLs, so that a key is one line of text and `unquote` gives
    the value back.
    """
    if value.isprintable() and "%" not in value and SEPARATOR not in value:
        return value
    return "".join(_escape(each) if each in "%/" or not each.isprintable() else each for each in value)


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))
