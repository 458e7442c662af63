"""Filters on a partition's values, an event's attributes or a run's arguments: every named column is present and equals
a text, one of several, or matches a glob pattern. Patterns are marked as such, so a plain value may contain a star.

    >>> eastern = Match.from_values({"region": OneOf(frozenset({"EU", "AP"})), "day": Glob("2013-01-*")})
    >>> eastern.accepts({"day": "2013-01-07", "region": "EU", "airline": "AA"}), eastern.accepts({"region": "EU"})
    (True, False)
    >>> str(eastern), eastern.id
    ('day like 2013-01-* and region AP or EU', 'day~2013-01-*&region=AP|EU')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import assert_never
from urllib.parse import quote

from streamsched.domain.errors import InvalidDefinitionError


@dataclass(frozen=True, slots=True)
class OneOf:
    """Equal to one of these texts."""

    values: frozenset[str]

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidDefinitionError("$", "names no value, so it could never hold")


@dataclass(frozen=True, slots=True)
class Glob:
    """The whole value matches this pattern: `*` any text, `?` any character, `[ab]` one of these. Case-sensitive."""

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise InvalidDefinitionError("$", "is an empty pattern")


Wanted = OneOf | Glob


@dataclass(frozen=True, slots=True)
class Match:
    """A conjunction of filters; build it with `Match.from_values`. The empty one accepts everything and is falsy.

    Attributes:
        columns: column (or attribute, or argument) and its filter, sorted by name, each name once.
    """

    columns: tuple[tuple[str, Wanted], ...] = ()

    @classmethod
    def from_values(cls, wanted: Mapping[str, Wanted]) -> Match:
        """The conjunction of these filters, by name of the field; equal filters in any order make equal values."""
        return cls(tuple(sorted(wanted.items(), key=lambda item: item[0])))

    def accepts(self, values: Mapping[str, str]) -> bool:
        """Whether these values have every named column with an accepted value."""
        return all(_fits(values.get(column), wanted) for column, wanted in self.columns)

    @property
    def id(self) -> str:
        """A stable text, equal exactly for equal matches."""
        return "&".join(f"{quote(column, safe='')}{_id(wanted)}" for column, wanted in self.columns)

    def __bool__(self) -> bool:
        return bool(self.columns)

    def __str__(self) -> str:
        return " and ".join(f"{column} {_text(wanted)}" for column, wanted in self.columns)


#: Accepts everything.
ANYTHING = Match()


def _fits(value: str | None, wanted: Wanted) -> bool:
    match wanted:
        case OneOf(values=values):
            return value in values
        case Glob(pattern=pattern):
            return value is not None and fnmatchcase(value, pattern)
        case _:
            assert_never(wanted)


def _id(wanted: Wanted) -> str:
    match wanted:
        case OneOf(values=values):
            return "=" + "|".join(quote(value, safe="") for value in sorted(values))
        case Glob(pattern=pattern):
            return "~" + quote(pattern, safe="*?[]!")
        case _:
            assert_never(wanted)


def _text(wanted: Wanted) -> str:
    match wanted:
        case OneOf(values=values):
            return " or ".join(sorted(values))
        case Glob(pattern=pattern):
            return f"like {pattern}"
        case _:
            assert_never(wanted)
