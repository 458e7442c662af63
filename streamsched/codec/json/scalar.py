"""Readers of single JSON values for the hot path: they check exact types and raise `DecodeError` with path and reason.

Every reader takes the path of the object and, separately, the `field` inside (`.id`); they are joined only for an
error. Parsed references are cached (bounded), so events of one dataset share one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import orjson

from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.json_value import Json
from streamsched.domain.limits import abridge
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef

_R = TypeVar("_R")

#: The largest whole number accepted: the maximum of PostgreSQL's `bigint` and Java's `long`.
LARGEST: Final = 2**63 - 1
#: Maximum nesting of JSON from outside: more than twice that of the deepest trigger. Readers recurse, and Python's
#: stack has about 1,000 frames.
DEEPEST: Final = 240
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_NUL: Final = b"\\u0000"
_REFS: Final = 1 << 14


def loads(raw: bytes | str, path: str = "$") -> Any:
    """JSON bytes or text as Python values.

    Raises:
        DecodeError: not JSON (NaN, infinities and invalid UTF-8 included), with line and column; or a text contains
            NUL, with its path.
    """
    found = parse(raw, path)
    if may_hold_nul(raw):
        _refuse_nul(found, path)
    return found


def parse(raw: bytes | str, path: str = "$") -> Any:
    """As `loads`, without the check for NUL.

    Raises:
        DecodeError: not JSON, or nested deeper than `DEEPEST` levels.
    """
    found = _parse(raw, path)
    if _may_be_deep(raw):
        _refuse_deep(found, path)
    return found


def elements(raw: bytes | str, path: str = "$") -> list[Any]:
    """The elements of a JSON list, in order; in the place of one that `loads` would refuse alone, its `DecodeError`.

    Raises:
        DecodeError: it is not a JSON list.
    """
    found = sequence(_parse(raw, path), path)
    deep, nul = _may_be_deep(raw), may_hold_nul(raw)
    if deep or nul:
        for index, item in enumerate(found):
            try:
                if deep:
                    _refuse_deep(item, f"{path}[{index}]")
                if nul:
                    _refuse_nul(item, f"{path}[{index}]")
            except DecodeError as exc:
                found[index] = exc
    return found


def _parse(raw: bytes | str, path: str) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise DecodeError(path, f"is not JSON: {exc}") from exc


def _refuse_deep(value: object, path: str) -> None:
    if _is_deep(value):
        raise DecodeError(path, f"is nested deeper than {DEEPEST} levels")


def _may_be_deep(raw: bytes | str) -> bool:
    """A cheap filter: False for nearly all JSON that is not too deep. Repeatedly removes empty brackets."""
    if isinstance(raw, str):
        raw = raw.encode("utf-8", "surrogatepass")
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    brackets = raw.translate(None, _NO_BRACKETS)
    for _ in range(DEEPEST // 2):  # each removes two levels at the most
        fewer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    return bool(brackets)


def _is_deep(value: object) -> bool:
    """Whether it has more than `DEEPEST` levels of lists and objects; iterative."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        below: list[object] = []
        for each in level:
            if type(each) is dict:
                below += each.values()
            elif type(each) is list:
                below += each
        if not below:
            return False
        level = below
    return any(type(each) in (dict, list) for each in level)


def may_hold_nul(raw: bytes | str) -> bool:
    """Whether JSON contains the escape of NUL; may be True for an escaped backslash before it."""
    return _NUL in raw if isinstance(raw, bytes) else _NUL.decode() in raw


def _refuse_nul(value: Json, path: str) -> None:
    """Refuses texts with NUL, which PostgreSQL cannot store.

    Raises:
        DecodeError: a text contains NUL; with its path.
    """
    match value:
        case str() if "\0" in value:
            raise DecodeError(path, "must not hold a NUL character")
        case dict():
            for key, item in value.items():
                _refuse_nul(key, path)
                _refuse_nul(item, f"{path}.{key}")
        case list():
            for index, item in enumerate(value):
                _refuse_nul(item, f"{path}[{index}]")
        case _:
            return


def mapping(value: object, path: str, field: str = "") -> dict[str, Any]:
    """A JSON object."""
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType] - the names of JSON are texts
    raise _refusal(value, path + field, "an object")


def sequence(value: object, path: str, field: str = "") -> list[Any]:
    """A JSON list."""
    if type(value) is list:
        return value  # pyright: ignore[reportUnknownVariableType]
    raise _refusal(value, path + field, "a list")


def text(value: object, path: str, field: str = "") -> str:
    """Non-empty text."""
    if type(value) is str and value:
        return value
    raise _refusal(value, path + field, "text")


def name(value: object, path: str, field: str = "") -> str:
    """Non-empty text without control characters, as required of ids and sources."""
    if type(value) is str and value and value.isprintable():
        return value
    found = text(value, path, field)
    if any(c < " " or c == "\x7f" for c in found):
        raise DecodeError(path + field, "must not hold control characters")
    return found


def integer(value: object, path: str, field: str = "", minimum: int = 0) -> int:
    """A whole number in [minimum, 2**63)."""
    if type(value) is int:
        if minimum <= value <= LARGEST:
            return value
        bound = f"at least {minimum}" if value < minimum else f"less than 2**63 ({LARGEST + 1})"
        raise DecodeError(path + field, f"must be {bound} but is {value}")
    raise _refusal(value, path + field, "a whole number")


def boolean(value: object, path: str, field: str = "") -> bool:
    """True or false."""
    if type(value) is bool:
        return value
    raise _refusal(value, path + field, "true or false")


def instant(value: object, path: str, field: str = "") -> datetime:
    """An ISO 8601 instant with an offset, as UTC."""
    if type(value) is not str:
        raise _refusal(value, path + field, "an ISO 8601 instant")
    try:
        found = datetime.fromisoformat(value)
        if found.tzinfo is UTC:
            return found
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise DecodeError(path + field, f"must be an ISO 8601 instant but is {abridge(value)}") from exc
    raise DecodeError(path + field, f"must name its offset from UTC (such as a final Z) but is {abridge(value)}")


def texts(value: object, path: str, field: str = "") -> dict[str, str]:
    """An object of texts; numbers and booleans are converted to their JSON text.

    Raises:
        DecodeError: a value is null, a list or an object, or a number that a float cannot represent exactly.
    """
    found = mapping(value, path, field)
    for item in found.values():
        if type(item) is not str:
            return {key: _as_text(item, f"{path}{field}.{key}") for key, item in found.items()}
    return found


def _as_text(value: object, path: str) -> str:
    if type(value) is str:
        return value
    if type(value) is float and abs(value) > LARGEST:
        raise DecodeError(path, "is too large a number to be kept exactly; write it as text")
    if type(value) in (bool, int, float):
        return orjson.dumps(value).decode()
    raise _refusal(value, path, "text, a number or a boolean")


def dataset(value: object, path: str, field: str = "") -> DatasetRef:
    """`namespace.name`, or a name in the default namespace."""
    return _reference(_dataset, value, path, field)


def stream(value: object, path: str, field: str = "") -> StreamRef:
    """`namespace.name`, or a name in the default namespace."""
    return _reference(_stream, value, path, field)


def event_name(value: object, path: str, field: str = "") -> EventName:
    """`namespace.name`, or a name in the default namespace."""
    return _reference(_event_name, value, path, field)


def program(value: object, path: str, field: str = "") -> ProgramRef:
    """`namespace.app.program`."""
    return _reference(_program, value, path, field)


def schedule(value: object, path: str, field: str = "") -> ScheduleRef:
    """`namespace.app.schedule`."""
    return _reference(_schedule, value, path, field)


_dataset = lru_cache(_REFS)(DatasetRef.parse)
_stream = lru_cache(_REFS)(StreamRef.parse)
_event_name = lru_cache(_REFS)(EventName.parse)
_program = lru_cache(_REFS)(ProgramRef.parse)
_schedule = lru_cache(_REFS)(ScheduleRef.parse)


def _reference(parse: Callable[[str], _R], value: object, path: str, field: str) -> _R:
    if type(value) is not str:
        raise _refusal(value, path + field, "text")
    try:
        return parse(value)
    except InvalidError as exc:
        raise DecodeError(path + field, exc.reason) from exc


def _refusal(value: object, path: str, wanted: str) -> DecodeError:
    if value is None:
        return DecodeError(path, f"is missing; it must be {wanted}")
    if value == "":
        return DecodeError(path, "must not be empty")
    return DecodeError(path, f"must be {wanted} but is {abridge(value)}")
