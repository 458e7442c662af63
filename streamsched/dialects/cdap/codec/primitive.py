"""Numbers and booleans that are written as text, as CDAP's reader of JSON (Gson) takes them.

>>> plain({"numPartitions": "5", "waitUntilMet": "True", "name": "5"})
{'numPartitions': 5, 'waitUntilMet': True, 'name': '5'}

Only members that CDAP has are read so. A text that is no number or boolean is left as it is, for its reader to refuse;
Gson takes every other text for false.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

_NUMBERS: Final = frozenset(
    {
        "numPartitions",
        "triggerMB",
        "maxConcurrency",
        "millisAfterTrigger",
        "millisSinceLastRun",
        "timeoutMillis",
        "dataTriggerMB",
        "maxConcurrentRuns",
    }
)
_FLAGS: Final = frozenset({"waitUntilMet"})
_BOOLEANS: Final[Mapping[str, bool]] = MappingProxyType({"true": True, "false": False})
#: Digits of the largest number, `long` in Java.
_MOST_DIGITS: Final = 19


def plain(given: object) -> Any:
    """The object with such members as numbers and booleans; another value, and each object inside, as it is."""
    match given:
        case Mapping():
            members: Mapping[Any, Any] = given
            return {name: _member(name, value) for name, value in members.items()}
        case _:
            return given


def whole_number(value: object) -> object:
    """A whole number given as a number or as text; anything else unchanged."""
    if type(value) is str and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    return value


def _member(name: object, value: object) -> object:
    if name in _NUMBERS:
        return whole_number(value)
    if name in _FLAGS and isinstance(value, str):
        return _BOOLEANS.get(value.lower(), value)
    return value
