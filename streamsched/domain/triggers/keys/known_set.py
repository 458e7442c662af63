"""Known sets: the values of a column of which each belongs to every key, such as the regions that each day must have.

    >>> regions = KnownSet("region", ("eu", "us"))
    >>> regions.part({"region": "us"})
    'us'
    >>> regions.part({"region": "mars"}).why
    "region='mars' is not one of 'eu' and 'us'"

Values are compared as the columns of an event have them, so a partition `region=a%2Fb` has the value `a/b`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Final
from urllib.parse import unquote

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import LONGEST_NAME, abridge, check_most, enumeration
from streamsched.domain.triggers.keys.key_value import (
    HIVE_NULL,
    SEPARATOR,
    NoKey,
    abridged_name,
    escaped_value,
    key_value,
)

#: Most values of a set.
MOST_VALUES: Final = 1_000
#: Values that a text names, and characters of each.
_NAMED: Final = 5
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class KnownSet:
    """The values of `column`, in the order in which they are named. Equal sets have them in the same order.

    Attributes:
        values: at least one, each once.
        listed: the first few as text.
        parts: value → its text in a part of a key (`joined_part`).
    """

    column: str
    values: tuple[str, ...]
    parts: Mapping[str, str] = field(init=False, compare=False, repr=False)
    listed: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_text(self.column, "$.column")
        check_most(len(self.values), MOST_VALUES, "$.values", "values")
        if not self.values:
            raise InvalidDefinitionError("$.values", "names no value, so it could never hold")
        places: dict[str, int] = {}
        for place, value in enumerate(self.values):
            _check_text(value, f"$.values[{place}]")
            if places.setdefault(value, place) != place:
                raise InvalidDefinitionError(
                    f"$.values[{place}]", f"is {abridge(value, _SHOWN)} again, as $.values[{places[value]}]"
                )
            if value == HIVE_NULL:
                raise InvalidDefinitionError(f"$.values[{place}]", f"is {HIVE_NULL}, which is no value")
        object.__setattr__(self, "listed", values_text([repr(each) for each in self.values]))
        object.__setattr__(self, "parts", {value: escaped_value(value) for value in self.values})

    @property
    def id(self) -> str:
        """A stable text, equal exactly for equal sets."""
        return sha256(repr((self.column, self.values)).encode()).hexdigest()[:16]

    def part(self, columns: Mapping[str, str]) -> str | NoKey:
        """The text of the value that an event has; why it has none of the set."""
        value = columns.get(self.column, "")
        if (found := self.parts.get(value)) is not None:
            return found
        if isinstance(none := key_value((self.column,), columns), NoKey):
            return none
        return NoKey(f"{abridged_name(self.column)}={abridge(value, _SHOWN)} is not one of {self.listed}")

    def __str__(self) -> str:
        return f"{self.column} {values_text(self.values)}"


def joined_part(value: str, part: str) -> str:
    """The text of a part: a period (or the key itself) and a value of a known set, as `2026-03-01T05/eu`."""
    return f"{value}{SEPARATOR}{part}"


def divided_part(part: str) -> tuple[str, str]:
    """The period, and the value as it is shown. The inverse of `joined_part`."""
    value, _, own = part.rpartition(SEPARATOR)
    text = unquote(own, errors="surrogateescape")
    return value, text if text.isprintable() else own


def values_text(values: Iterable[str]) -> str:
    """The first few values, and how many others there are: `eu, us and apac`, `a, b, c, d, e and 95 more`."""
    some = list(values)
    shown = [each if len(each) <= _SHOWN else f"{each[:_SHOWN]}…" for each in islice(some, _NAMED)]
    more = len(some) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return enumeration(shown)


def _check_text(value: object, path: str) -> None:
    if not isinstance(value, str):
        raise InvalidDefinitionError(path, f"must be a text but is {abridge(value)}")
    if not value:
        raise InvalidDefinitionError(path, "is empty")
    check_most(len(value), LONGEST_NAME, path, "characters")
    if "\0" in value or any("\ud800" <= each <= "\udfff" for each in value):
        raise InvalidDefinitionError(path, f"holds a character that no text may hold: {abridge(value)}")
