"""Reads JSON from outside: every error is a `DecodeError` with the path of the offending field.

>>> fields = Fields({"numPartitions": 0}, "$.trigger")
>>> fields.integer("numPartitions", minimum=1)
Traceback (most recent call last):
streamsched.domain.errors.DecodeError: $.trigger.numPartitions: must be at least 1 but is 0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from streamsched.domain.errors import DecodeError, InvalidDefinitionError, InvalidError
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.limits import abridge, add_duration, clamp_instant
from streamsched.domain.time.duration import parse_duration

_E = TypeVar("_E", bound=StrEnum)
_T = TypeVar("_T")

_SHOWN = 60


def kind(value: object) -> str:
    """The JSON type of a value, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def format_value(value: object) -> str:
    """A value for messages, cut when long."""
    return abridge(value, _SHOWN)


@contextmanager
def prefix_errors(path: str, **renamed: str) -> Generator[None]:
    """Prefixes the paths of errors raised inside with `path`, except of what is outside the JSON, such as a header.
    `renamed` maps domain field names to JSON names.

    Raises:
        InvalidDefinitionError: the inner error was one.
        DecodeError: the inner error was any other `InvalidError`.
    """
    try:
        yield
    except InvalidError as exc:
        if not exc.path.startswith("$"):
            raise
        head, *rest = re.split(r"(?=[.\[])", exc.path.removeprefix("$").removeprefix("."), maxsplit=1)
        inner = renamed.get(head, head) + "".join(rest)
        joint = "" if not inner or inner.startswith("[") else "."
        where = f"{path}{joint}{inner}"
        if isinstance(exc, InvalidDefinitionError):
            raise InvalidDefinitionError(where, exc.reason) from exc
        raise DecodeError(where, exc.reason) from exc


def instant(value: object, path: str) -> datetime:
    """An ISO 8601 instant with an offset, as UTC.

    Raises:
        DecodeError: it is not an instant, or has no offset.
    """
    if not isinstance(value, str):
        raise DecodeError(path, f"must be an ISO 8601 instant but is {kind(value)}")
    try:
        read = datetime.fromisoformat(value)
        if read.tzinfo is not None:
            return read.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise DecodeError(path, f"must be an ISO 8601 instant but is {format_value(value)}") from exc
    raise DecodeError(path, f"must name its offset from UTC, as in {value}Z")


def moment_ago(text: str, path: str, now: datetime) -> datetime:
    """An ISO 8601 instant as UTC, or a duration such as `2h`: that long before `now`.

    Raises:
        DecodeError: it is neither.
    """
    if text[:4].isdigit() and text[4:5] == "-":
        return clamp_instant(instant(text, path))
    try:
        return add_duration(now, -parse_duration(text, path))
    except InvalidError as exc:
        raise DecodeError(
            path, f"must be an instant such as 2026-03-01T06:00:00Z, or a duration such as 2h: {exc.reason}"
        ) from exc


def read_text(value: Json, path: str) -> str:
    """A text; it may be empty. DecodeError: it is none."""
    if not isinstance(value, str):
        raise DecodeError(path, f"must be a text but is {kind(value)}")
    return value


def read_integer(value: Json, path: str) -> int:
    """A whole number. DecodeError: it is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise DecodeError(path, f"must be a whole number but is {format_value(value)}")
    return value


def read_boolean(value: Json, path: str) -> bool:
    """True or false. DecodeError: it is neither."""
    if not isinstance(value, bool):
        raise DecodeError(path, f"must be true or false but is {format_value(value)}")
    return value


def read_list(value: Json, path: str) -> Sequence[Json]:
    """A JSON list. DecodeError: it is none."""
    if not isinstance(value, list | tuple):
        raise DecodeError(path, f"must be a list but is {kind(value)}")
    return value


def read_object(value: object, path: str) -> Mapping[str, Json]:
    """A JSON object. DecodeError: it is none."""
    if not isinstance(value, Mapping):
        raise DecodeError(path, f"must be an object but is {kind(value)}")
    return value  # pyright: ignore[reportUnknownVariableType] - the names of JSON are texts


def find_choice(text: str, options: type[_E]) -> _E | None:
    """The member of an enum with this text, in any case; None: there is none."""
    return next((option for option in options if text.casefold() == option.value.casefold()), None)


def read_choice(value: Json, path: str, options: type[_E]) -> _E:
    """A member of an enum, in any case. DecodeError: it is none."""
    found = find_choice(text := read_text(value, path), options)
    if found is None:
        raise DecodeError(path, f"must be one of {', '.join(options)} but is {format_value(text)}")
    return found


def refuse_unknown(given: Mapping[str, Json], known: Collection[str], path: str) -> None:
    """DecodeError: an object has another field than these."""
    for name in given:
        if name not in known:
            raise DecodeError(member_path(path, str(name)), f"unknown field (known: {', '.join(sorted(known))})")


class Fields:
    """Reads the fields of one JSON object; `check_all_read` refuses fields that were not read.

    A null field counts as absent. Every method raises `DecodeError` with the field's path.
    """

    __slots__ = ("_object", "_read", "path")

    def __init__(self, obj: object, path: str = "$") -> None:
        self._object = read_object(obj, path)
        self._read: set[str] = set()
        self.path = path

    def path_of(self, name: str) -> str:
        """The path of a field."""
        return member_path(self.path, name)

    def fail(self, name: str, reason: str) -> NoReturn:
        """Refuses a field."""
        raise DecodeError(self.path_of(name), reason)

    def optional_value(self, name: str) -> Json:
        """The unchecked value, or None."""
        self._read.add(name)
        return self._object.get(name)

    def required_value(self, name: str) -> Json:
        """The unchecked value; not None."""
        value = self.optional_value(name)
        if value is None:
            self.fail(name, "is missing")
        return value

    def has(self, name: str) -> bool:
        """Whether the field is present and not null; does not count as reading it."""
        return self._object.get(name) is not None

    def ignore(self, *names: str) -> None:
        """Accepts fields without using them."""
        self._read.update(names)

    def text(self, name: str) -> str:
        """A text that is not empty. DecodeError: it is missing, or not one."""
        return self._read_value(name, read_text)

    def optional_text(self, name: str) -> str | None:
        """As `text`; None when the field is absent."""
        return self.text(name) if self._has(name) else None

    def integer(self, name: str, *, minimum: int | None = None) -> int:
        """A whole number, at least `minimum`. DecodeError: it is missing, or not one."""
        value = self._read_value(name, read_integer)
        if minimum is not None and value < minimum:
            self.fail(name, f"must be at least {minimum} but is {value}")
        return value

    def optional_integer(self, name: str, *, minimum: int | None = None) -> int | None:
        """As `integer`; None when the field is absent."""
        return self.integer(name, minimum=minimum) if self._has(name) else None

    def boolean(self, name: str) -> bool:
        """True or false. DecodeError: it is missing, or neither."""
        return self._read_value(name, read_boolean)

    def optional_boolean(self, name: str) -> bool | None:
        """As `boolean`; None when the field is absent."""
        return self.boolean(name) if self._has(name) else None

    def instant(self, name: str) -> datetime:
        """An ISO 8601 instant with an offset, as UTC."""
        return instant(self.required_value(name), self.path_of(name))

    def optional_instant(self, name: str) -> datetime | None:
        """As `instant`; None when the field is absent."""
        return self.instant(name) if self._has(name) else None

    def duration(self, name: str) -> timedelta:
        """A duration such as `2h30m`. InvalidDefinitionError: the text is none, or it is too long."""
        return parse_duration(self.text(name), self.path_of(name))

    def optional_duration(self, name: str) -> timedelta | None:
        """As `duration`; None when the field is absent."""
        return self.duration(name) if self._has(name) else None

    def list(self, name: str) -> list[tuple[Json, str]]:
        """The elements with their paths, in order."""
        value = self._read_value(name, read_list)
        return [(element, member_path(self.path_of(name), index)) for index, element in enumerate(value)]

    def optional_list(self, name: str) -> list[tuple[Json, str]]:
        """The elements with their paths; none when the field is absent."""
        return self.list(name) if self._has(name) else []

    def unchecked_list(self, name: str) -> tuple[Any, ...]:
        """The elements of a list of which another checks each; none when the field is absent."""
        return tuple(element for element, _ in self.optional_list(name))

    def object(self, name: str) -> Fields:
        """The fields of an object. DecodeError: it is missing, or no object."""
        return Fields(self.required_value(name), self.path_of(name))

    def optional_object(self, name: str) -> Fields | None:
        """As `object`; None when the field is absent."""
        return self.object(name) if self._has(name) else None

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts; empty when the field is absent."""
        if not self._has(name):
            return {}
        inner = self.object(name)
        return {key: inner.text(key) for key in inner.names()}

    def text_list(self, name: str) -> tuple[str, ...]:
        """A list of texts; none when the field is absent."""
        return tuple(read_text(element, path) for element, path in self.optional_list(name))

    def choice(self, name: str, options: type[_E]) -> _E:
        """A member of an enum, case-insensitive."""
        return self._read_value(name, lambda value, path: read_choice(value, path, options))

    def optional_choice(self, name: str, options: type[_E]) -> _E | None:
        """As `choice`; None when the field is absent."""
        return self.choice(name, options) if self._has(name) else None

    def names(self) -> list[str]:
        """The names of all fields, read or not."""
        return list(self._object)

    def raw(self) -> Mapping[str, Json]:
        """The object itself."""
        return self._object

    def check_all_read(self) -> None:
        """Refuses fields that were not read."""
        refuse_unknown(self._object, self._read, self.path)

    def _read_value(self, name: str, read: Callable[[Json, str], _T]) -> _T:
        """What `read` makes of a value that is there; the path is made for an error only."""
        value = self.required_value(name)
        try:
            return read(value, "")
        except DecodeError as exc:
            raise DecodeError(self.path_of(name), exc.reason) from None

    def _has(self, name: str) -> bool:
        return self.optional_value(name) is not None
