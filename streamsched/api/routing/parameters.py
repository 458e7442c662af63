"""Parameters of queries and headers: what is read of their texts, and how the OpenAPI document describes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

from starlette.requests import Request

from streamsched.codec.json.reading import instant
from streamsched.domain.errors import DecodeError

_T = TypeVar("_T", int, float)

_WHOLE: Final = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*(?:\.0+)?")
#: Digits that Python reads as a number.
_MOST_DIGITS: Final = 4300
_TRUE: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE: Final = frozenset({"0", "false", "f", "no", "n", "off"})


class ParameterError(DecodeError):
    """A parameter of the query or a header that cannot be read. `path` is its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parameter of the query, as the annotation of an argument: `Annotated[int, Query(ge=1, description="…")]`.

    Attributes:
        alias: its name in the query, when the argument has another one.
        ge, le: bounds of a number, included.
        max_length: characters of a text.
    """

    description: str
    alias: str | None = None
    ge: float | None = None
    le: float | None = None
    max_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header, as `Query`."""

    description: str
    alias: str
    max_length: int | None = None
    ge: None = None
    le: None = None


class Parameter:
    """A parameter of a route.

    Attributes:
        name: in the request.
        place: `query` or `header`.
    """

    def __init__(self, argument: str, annotation: Any, marker: Query | Header, default: object) -> None:
        """`default`: `...` when it must be given.

        Raises:
            TypeError: nothing reads the annotation.
        """
        self.name: Final = marker.alias or argument
        self.place: Final = "query" if isinstance(marker, Query) else "header"
        self._default = default
        self._many, kind = _shape(annotation)
        self._read, self._schema = _reader(kind, marker)
        self._description = marker.description

    @property
    def openapi(self) -> dict[str, Any]:
        """As the OpenAPI document has it."""
        schema = {"type": "array", "items": self._schema} if self._many else dict(self._schema)
        if self._default not in (..., None):
            schema["default"] = self._default.value if isinstance(self._default, Enum) else self._default
        return {
            "name": self.name,
            "in": self.place,
            "required": self._default is ...,
            "schema": schema,
            "description": self._description,
        }

    def value(self, request: Request) -> object:
        """What the request gives, of a repeated one the last; without it the default.

        Raises:
            ParameterError: it is missing, or cannot be read.
        """
        given = request.query_params if self.place == "query" else request.headers
        if self._many:
            texts = given.getlist(self.name)
            return [self._one(text, f"{self.name}.{index}") for index, text in enumerate(texts)] or self._default
        text = given.get(self.name)
        if text is not None:
            return self._one(text, self.name)
        if self._default is ...:
            raise ParameterError(self.name, "Field required")
        return self._default

    def _one(self, text: str, path: str) -> object:
        try:
            return self._read(text)
        except ValueError as exc:
            raise ParameterError(path, str(exc)) from None
        except DecodeError as exc:
            raise ParameterError(path, exc.reason) from None


def _shape(annotation: Any) -> tuple[bool, Any]:
    """Whether it can be repeated, and what each value is."""
    kinds = [each for each in _alternatives(annotation) if each is not type(None)]
    if len(kinds) == 1 and get_origin(kinds[0]) is list:
        return True, get_args(kinds[0])[0]
    return False, kinds[0] if len(kinds) == 1 else annotation


def _alternatives(annotation: Any) -> Sequence[Any]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _reader(kind: Any, marker: Query | Header) -> tuple[Callable[[str], object], dict[str, Any]]:
    """How a text is read, with ValueError when it cannot be, and its schema.

    Raises:
        TypeError: nothing reads the kind.
    """
    if kind is str:
        return _text(marker.max_length)
    if kind is int:
        return _add_bounds(_whole, marker), {"type": "integer", **_bounds(marker)}
    if kind is float:
        return _add_bounds(_number, marker), {"type": "number", **_bounds(marker)}
    if kind is bool:
        return _boolean, {"type": "boolean"}
    if kind is datetime:
        return lambda text: instant(text, ""), {"type": "string", "format": "date-time"}
    return _choice({text: value for each in _alternatives(kind) for text, value in _choices(each)})


def _choices(kind: Any) -> Sequence[tuple[str, object]]:
    if get_origin(kind) is Literal:
        return [(each, each) for each in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [(each.value, each) for each in kind]
    raise TypeError(f"no parameter can be {kind}")


def _text(most: int | None) -> tuple[Callable[[str], str], dict[str, Any]]:
    if most is None:
        return str, {"type": "string"}

    def read(text: str) -> str:
        if len(text) > most:
            raise ValueError(f"String should have at most {most} characters")
        return text

    return read, {"type": "string", "maxLength": most}


def _choice(known: dict[str, object]) -> tuple[Callable[[str], object], dict[str, Any]]:
    *others, last = map(repr, known)
    listed = f"{', '.join(others)} or {last}" if others else last

    def read(text: str) -> object:
        if text not in known:
            raise ValueError(f"Input should be {listed}")
        return known[text]

    return read, {"type": "string", "enum": list(known)}


def _bounds(marker: Query | Header) -> dict[str, float]:
    bounds = {"minimum": marker.ge, "maximum": marker.le}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _add_bounds(read: Callable[[str], _T], marker: Query | Header) -> Callable[[str], _T]:
    least, most = marker.ge, marker.le

    def read_within(text: str) -> _T:
        value = read(text)
        if most is not None and not value <= most:  # also when it is no number
            raise ValueError(f"Input should be less than or equal to {most}")
        if least is not None and not value >= least:
            raise ValueError(f"Input should be greater than or equal to {least}")
        return value

    return read_within


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError("Unable to parse input string as an integer, exceeded maximum size")
    if _WHOLE.fullmatch(text := text.strip()) is None:
        raise ValueError("Input should be a valid integer, unable to parse string as an integer")
    return int(text.partition(".")[0])


def _number(text: str) -> float:
    try:
        if text.isascii():
            return float(text)
    except ValueError:
        pass
    raise ValueError("Input should be a valid number, unable to parse string as a number")


def _boolean(text: str) -> bool:
    lower = text.lower()
    if lower not in _TRUE and lower not in _FALSE:
        raise ValueError("Input should be a valid boolean, unable to interpret input")
    return lower in _TRUE
