"""Constraints in CDAP's REST dialect: native JSON with Java's time zones.

Without `waitUntilMet`, TIME_RANGE and DELAY wait and CONCURRENCY and LAST_RUN abort, as in CDAP's Java builder (CDAP's
REST made all of them abort). A DELAY with false is refused, as in CDAP, and so is a TIME_RANGE without a `timeZone`.
Types are case-insensitive; numbers and booleans may be texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamsched.codec.schedules import constraint as native
from streamsched.dialects.cdap.codec.primitive import plain
from streamsched.dialects.cdap.codec.zone import iana
from streamsched.domain.constraints.constraint import Constraint
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json, member_path

to_json = native.to_json

_ABORT: Final = frozenset({"CONCURRENCY", "LAST_RUN"})


def from_json(obj: Json, path: str = "$") -> Constraint:
    """Decodes a constraint.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the constraint could never be met, or contradicts itself.
    """
    return native.from_json(_to_native(obj, path), path)


def _to_native(obj: Json, path: str) -> Json:
    if not isinstance(obj, Mapping):
        return obj
    found = plain(obj)
    given = obj.get("type")
    kind = native.kind_of(given) if isinstance(given, str) else None
    if isinstance(zone := obj.get("timeZone"), str):
        found["timeZone"] = iana(zone, member_path(path, "timeZone"))
    elif kind == "TIME_RANGE" and zone is None:
        raise DecodeError(member_path(path, "timeZone"), "is missing: whose wall clock startTime and endTime mean")
    if kind in _ABORT and obj.get("waitUntilMet") is None:
        found["waitUntilMet"] = False
    return found
