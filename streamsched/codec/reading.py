"""Reading JSON that others wrote: every refusal is a `DecodeError` that names the offending field by its path.

>>> fields = Fields({"numPartitions": 0}, "$.trigger")
>>> fields.integer("numPartitions", minimum=1)
Traceback (most recent call last):
streamsched.domain.errors.DecodeError: $.trigger.numPartitions: must be at least 1 but is 0
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from streamsched.domain.errors import DecodeError, InvalidDefinitionError, InvalidError

_E = TypeVar("_E", bound=StrEnum)

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_SHOWN = 60


def below(path: str, name: str | int) -> str:
    """The path of a field or an element of what is at `path`.

    >>> below("$.a", "b"), below("$.a", 2), below("$", "odd name")
    ('$.a.b', '$.a[2]', "$['odd name']")
    """
    if isinstance(name, int):
        return f"{path}[{name}]"
    return f"{path}.{name}" if _PLAIN.fullmatch(name) else f"{path}['{name}']"


def kind(value: object) -> str:
    """What JSON calls a value, for people."""
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


def shown(value: object) -> str:
    """A value as an error shows it, cut when long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@contextmanager
def anchored(path: str, **renamed: str) -> Iterator[None]:
    """Hangs the path of an error raised inside below `path`; `renamed` maps the domain's field names to JSON's.

    Raises:
        InvalidDefinitionError: the inner error was one.
        DecodeError: the inner error was any other `InvalidError`.
    """
    try:
        yield
    except InvalidError as exc:
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
        DecodeError: it is no instant, or says no offset.
    """
    if not isinstance(value, str):
        raise DecodeError(path, f"must be an ISO 8601 instant but is {kind(value)}")
    try:
        read = datetime.fromisoformat(value)
        if read.tzinfo is not None:
            return read.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise DecodeError(path, f"must be an ISO 8601 instant but is {shown(value)}") from exc
    raise DecodeError(path, f"must name its offset from UTC, as in {value}Z")


class Fields:
    """The fields of one JSON object, taken one by one; `done` refuses what nobody asked for.

    A field that is null counts as absent. Every method raises `DecodeError` with the field's path.
    """

    __slots__ = ("_asked", "_object", "path")

    def __init__(self, obj: object, path: str = "$") -> None:
        if not isinstance(obj, Mapping):
            raise DecodeError(path, f"must be an object but is {kind(obj)}")
        self._object: Mapping[Any, Any] = obj
        self._asked: set[str] = set()
        self.path = path

    def at(self, name: str) -> str:
        """The path of a field."""
        return below(self.path, name)

    def fail(self, name: str, reason: str) -> NoReturn:
        """Refuses a field."""
        raise DecodeError(self.at(name), reason)

    def optional(self, name: str) -> Any:
        """The value as it is, or None."""
        self._asked.add(name)
        return self._object.get(name)

    def required(self, name: str) -> Any:
        """The value as it is; never None."""
        value = self.optional(name)
        if value is None:
            self.fail(name, "is missing")
        return value

    def has(self, name: str) -> bool:
        """Whether the field is there and not null; does not take it."""
        return self._object.get(name) is not None

    def ignore(self, *names: str) -> None:
        """Takes fields that say nothing we need."""
        self._asked.update(names)

    def text(self, name: str) -> str:
        value = self.required(name)
        if not isinstance(value, str):
            self.fail(name, f"must be a text but is {kind(value)}")
        return value

    def optional_text(self, name: str) -> str | None:
        return self.text(name) if self._present(name) else None

    def integer(self, name: str, *, minimum: int | None = None) -> int:
        value = self.required(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(name, f"must be a whole number but is {shown(value)}")
        if minimum is not None and value < minimum:
            self.fail(name, f"must be at least {minimum} but is {value}")
        return value

    def optional_integer(self, name: str, *, minimum: int | None = None) -> int | None:
        return self.integer(name, minimum=minimum) if self._present(name) else None

    def nullable_integer(self, name: str, *, minimum: int | None = None) -> int | None:
        """A whole number, or a null that somebody wrote: here it says something, so left out it is missing."""
        if name in self._object and not self._present(name):
            return None
        return self.integer(name, minimum=minimum)

    def boolean(self, name: str) -> bool:
        value = self.required(name)
        if not isinstance(value, bool):
            self.fail(name, f"must be true or false but is {shown(value)}")
        return value

    def optional_boolean(self, name: str) -> bool | None:
        return self.boolean(name) if self._present(name) else None

    def instant(self, name: str) -> datetime:
        """An ISO 8601 instant with an offset, as UTC."""
        return instant(self.required(name), self.at(name))

    def optional_instant(self, name: str) -> datetime | None:
        return self.instant(name) if self._present(name) else None

    def list(self, name: str) -> list[tuple[Any, str]]:
        """The elements with their paths, in order."""
        value = self.required(name)
        if not isinstance(value, list | tuple):
            self.fail(name, f"must be a list but is {kind(value)}")
        return [(element, below(self.at(name), index)) for index, element in enumerate(value)]

    def optional_list(self, name: str) -> list[tuple[Any, str]]:
        """The elements with their paths; none when the field is absent."""
        return self.list(name) if self._present(name) else []

    def object(self, name: str) -> Fields:
        return Fields(self.required(name), self.at(name))

    def optional_object(self, name: str) -> Fields | None:
        return self.object(name) if self._present(name) else None

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts; empty when the field is absent."""
        if not self._present(name):
            return {}
        inner = self.object(name)
        return {key: inner.text(key) for key in inner.names()}

    def text_list(self, name: str) -> tuple[str, ...]:
        """A list of texts; none when the field is absent."""
        elements = self.optional_list(name)
        for element, path in elements:
            if not isinstance(element, str):
                raise DecodeError(path, f"must be a text but is {kind(element)}")
        return tuple(element for element, _ in elements)

    def choice(self, name: str, options: type[_E]) -> _E:
        """A member of a closed set, in any case of letters."""
        text = self.text(name)
        for option in options:
            if text.casefold() == option.value.casefold():
                return option
        return self.fail(name, f"must be one of {', '.join(options)} but is {shown(text)}")

    def optional_choice(self, name: str, options: type[_E]) -> _E | None:
        return self.choice(name, options) if self._present(name) else None

    def names(self) -> list[str]:
        """The names of all fields, asked for or not."""
        return list(self._object)

    def raw(self) -> Mapping[str, Any]:
        """The object itself."""
        return self._object

    def done(self) -> None:
        """Refuses fields that nobody asked for."""
        for name in self._object:
            if name not in self._asked:
                known = ", ".join(sorted(self._asked))
                raise DecodeError(self.at(str(name)), f"is no field we know here (known: {known})")

    def _present(self, name: str) -> bool:
        return self.optional(name) is not None
