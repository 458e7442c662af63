"""The values of a key column that a backfill covers: a list of values and ranges.

    >>> list(parse_values("2013-01-30..2013-02-02", "$"))
    ['2013-01-30', '2013-01-31', '2013-02-01', '2013-02-02']
    >>> list(parse_values("berlin,08..11", "$"))
    ['berlin', '08', '09', '10', '11']

A range is of years, months, weeks, days or hours in their canonical text (`2013-01-07T05`), or of whole numbers, with
leading zeros when both ends have as many digits. Both ends are included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import Period, period

RANGE: Final = ".."
_NUMBER: Final = re.compile(r"-?\d{1,15}")


@dataclass(frozen=True, slots=True)
class PeriodRange:
    """The periods of a grain from `first` to `last`."""

    first: Period
    last: Period

    def __iter__(self) -> Iterator[str]:
        each = self.first
        while each.start <= self.last.start:
            yield each.key
            each = each.next_period()

    def in_zone(self, zone: str) -> PeriodRange:
        """The same texts as periods of a zone; the range itself where it skips an end."""
        ends = [period(each.key, each.grain, zone) for each in (self.first, self.last)]
        match ends:
            case [Period() as first, Period() as last]:
                return PeriodRange(first, last)
            case _:
                return self


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The whole numbers from `first` to `last`, with at least `digits` digits."""

    first: int
    last: int
    digits: int = 0

    def __iter__(self) -> Iterator[str]:
        for number in count(self.first):
            if number > self.last:
                return
            yield f"{number:0{self.digits}d}"


KeyRange = PeriodRange | NumberRange


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Values of one column, in order."""

    parts: Sequence[Sequence[str] | KeyRange]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.parts)

    def in_zone(self, zone: str) -> KeyValues:
        """With ranges of the periods of a zone, which skips some hours and repeats others."""
        return KeyValues([each.in_zone(zone) if isinstance(each, PeriodRange) else each for each in self.parts])


def parse_values(text: str, path: str) -> KeyValues:
    """Reads values and ranges separated by commas.

    Raises:
        InvalidError: a value is empty, or a range is not one of periods or numbers, or is reversed.
    """
    parts: list[Sequence[str] | KeyRange] = []
    for piece in text.split(","):
        first, dots, last = piece.strip().partition(RANGE)
        if not first or (dots and not last):
            raise InvalidError(path, f"'{text:.100}' has an empty value")
        parts.append(_range(first.strip(), last.strip(), path) if dots else (first,))
    return KeyValues(tuple(parts))


def _range(first: str, last: str, path: str) -> KeyRange:
    shown = f"range {first:.40}..{last:.40}"
    found: KeyRange | None = None
    reversed_ = False
    if _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last):
        found = NumberRange(int(first), int(last), len(first) if len(first) == len(last) else 0)
        reversed_ = found.last < found.first
    for grain in Grain:
        start, end = period(first, grain), period(last, grain)
        if isinstance(start, Period) and isinstance(end, Period) and (start.key, end.key) == (first, last):
            found = PeriodRange(start, end)
            reversed_ = end.start < start.start
    if found is None:
        raise InvalidError(
            path,
            f"{shown} is neither one of hours, days, weeks, months or years (as 2013-01-07) nor one of whole numbers",
        )
    if reversed_:
        raise InvalidError(path, f"{shown} is reversed: its end is before its beginning")
    return found
