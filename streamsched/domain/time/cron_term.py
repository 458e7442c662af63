"""Common parts of the cron dialects: fields with their bounds, and errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NoReturn

from streamsched.domain.errors import InvalidDefinitionError

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an expression: its noun in messages, its bounds, and the names of its values from the lowest on."""

    noun: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()

    def number(self, text: str) -> int:
        """The value of a number or a name.

        Raises:
            InvalidDefinitionError: it is neither, or out of bounds.
        """
        if text.upper() in self.names:
            return self.names.index(text.upper()) + self.lowest
        if not (text.isascii() and text.isdigit()):
            names = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
            refuse(f"'{text}' is no {self.noun}: a number{names} is wanted")
        if not self.lowest <= int(text) <= self.highest:
            refuse(f"{self.noun} {text} is not from {self.lowest} to {self.highest}")
        return int(text)


SECOND: Final = Field("second", 0, 59)
MINUTE: Final = Field("minute", 0, 59)
HOUR: Final = Field("hour", 0, 23)
DAY: Final = Field("day of month", 1, 31)
MONTH: Final = Field("month", 1, 12, _MONTHS)


def weekday(lowest: int, highest: int) -> Field:
    """The day-of-week field; the lowest number is Sunday."""
    return Field("day of week", lowest, highest, _DAYS)


def parse_list(text: str, field: Field, term: Callable[[str, Field], Iterable[int]]) -> frozenset[int]:
    """The numbers of the comma-separated terms, each parsed by the dialect's `term`."""
    return frozenset(number for each in text.split(",") for number in term(each, field))


def sort_distinct(values: Collection[int]) -> tuple[int, ...]:
    """Distinct values in order."""
    return tuple(sorted(set(values)))


def refuse(reason: str) -> NoReturn:
    """Raises:
    InvalidDefinitionError: always, with path `$`; callers replace it.
    """
    raise InvalidDefinitionError("$", reason)
