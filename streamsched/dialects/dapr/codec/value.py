"""`google.protobuf.Value` as bytes: what Dapr stores of the JSON of a job's data. Numbers are doubles, as there."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json

#: The type URL of a `google.protobuf.Value`.
VALUE: Final = "type.googleapis.com/google.protobuf.Value"

_NULL, _NUMBER, _STRING, _BOOL, _STRUCT, _LIST = 0x08, 0x11, 0x1A, 0x20, 0x2A, 0x32
_FIELD, _KEY, _VALUE, _ITEM = 0x0A, 0x0A, 0x12, 0x0A
#: The deepest nesting; a level of JSON is two messages.
_DEEPEST: Final = 240
_EXACT: Final = 2**53


def value_to_bytes(value: Json) -> bytes:
    """A JSON value as the bytes of a `Value`. Fields of objects are in the order given."""
    match value:
        case None:
            return bytes((_NULL, 0))
        case bool():
            return bytes((_BOOL, value))
        case int() | float():
            return bytes((_NUMBER,)) + struct.pack("<d", _double(value))
        case str():
            return _delimited_field(_STRING, value.encode())
        case dict():
            entries = (
                _delimited_field(_KEY, name.encode()) + _delimited_field(_VALUE, value_to_bytes(each))
                for name, each in value.items()
            )
            return _delimited_field(_STRUCT, b"".join(_delimited_field(_FIELD, entry) for entry in entries))
        case _:
            return _delimited_field(_LIST, b"".join(_delimited_field(_ITEM, value_to_bytes(each)) for each in value))


def value_from_bytes(content: bytes) -> Any:
    """The inverse. Whole numbers that a double holds exactly are integers.

    Raises:
        DecodeError: these are not the bytes of a `Value`.
    """
    try:
        return _value(content, 0)
    except (IndexError, ValueError, struct.error) as exc:
        raise DecodeError("$.data", f"is no google.protobuf.Value: {exc}") from exc


def _value(content: bytes, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    found: Any = None
    for tag, part in _parts(content):
        match tag:
            case 0x08:
                found = None
            case 0x11:
                found = _number(struct.unpack("<d", part)[0])
            case 0x1A:
                found = part.decode()
            case 0x20:
                found = part != b"\0"
            case 0x2A:
                found = dict(_entry(entry, depth) for field, entry in _parts(part) if field == _FIELD)
            case 0x32:
                found = [_value(item, depth + 1) for field, item in _parts(part) if field == _ITEM]
            case _:
                continue
    return found


def _entry(content: bytes, depth: int) -> tuple[str, Any]:
    name, value = "", None
    for tag, part in _parts(content):
        if tag == _KEY:
            name = part.decode()
        elif tag == _VALUE:
            value = _value(part, depth + 1)
    return name, value


def _parts(content: bytes) -> list[tuple[int, bytes]]:
    """Tag and content of each field; a varint is a byte string that is `b"\\0"` for zero."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        match tag & 7:
            case 0:
                number, at = _varint(content, at)
                found.append((tag, bytes((min(number, 1),))))
                continue
            case 1:
                length = 8
            case 2:
                length, at = _varint(content, at)
            case 5:
                length = 4
            case _:
                raise ValueError(f"field {tag} has an unknown type")
        if at + length > len(content):
            raise ValueError("it is cut off")
        found.append((tag, content[at : at + length]))
        at += length
    return found


def _varint(content: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number is too long")


def _delimited_field(tag: int, content: bytes) -> bytes:
    length, head = len(content), bytearray((tag,))
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + content


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _number(number: float) -> float | int:
    return int(number) if abs(number) <= _EXACT and number.is_integer() else number
