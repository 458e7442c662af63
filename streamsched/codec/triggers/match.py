"""Matches as JSON: `{"region": "EU", "airline": ["AA", "DL"], "day": {"glob": "2013-01-*"}}`.

A text means equal, a list one of, an object `{"glob": pattern}` matching. Canonical form: names and lists sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from streamsched.codec.json.reading import Fields, kind, prefix_errors
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.match import ANYTHING, Glob, Match, OneOf, Wanted
from streamsched.domain.json_value import Json, member_path


def to_json(match: Match) -> dict[str, Any]:
    """The canonical JSON of a match."""
    return {column: _wanted_to_json(wanted) for column, wanted in match.columns}


def field(fields: Fields, name: str = "match") -> Match:
    """The match in a field of an object; accepts everything when the field is absent.

    Raises:
        DecodeError: a filter is neither text, nor list of texts, nor glob; the path names it.
        InvalidDefinitionError: it could never hold.
    """
    inner = fields.optional_object(name)
    if inner is None:
        return ANYTHING
    return Match.from_values(
        {column: _read_wanted(value, member_path(inner.path, column)) for column, value in inner.raw().items()}
    )


def _wanted_to_json(wanted: Wanted) -> Any:
    match wanted:
        case OneOf(values=values):
            some = sorted(values)
            return some[0] if len(some) == 1 else some
        case Glob(pattern=pattern):
            return {"glob": pattern}
        case _:
            assert_never(wanted)


def _read_wanted(value: Json, path: str) -> Wanted:
    match value:
        case str():
            return OneOf(frozenset({value}))
        case list():
            some = frozenset(_text(each, member_path(path, index)) for index, each in enumerate(value))
            with prefix_errors(path):
                return OneOf(some)
        case Mapping():
            fields = Fields(value, path)
            pattern = fields.text("glob")
            fields.check_all_read()
            with prefix_errors(fields.path_of("glob")):
                return Glob(pattern)
        case _:
            raise DecodeError(path, f'must be a text, a list of texts or {{"glob": pattern}} but is {kind(value)}')


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise DecodeError(path, f"must be a text but is {kind(value)}")
    return value
