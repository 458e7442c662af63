"""Constraints as CDAP's REST says them: our native JSON, with Java's time zones.

Without `waitUntilMet`, TIME_RANGE and DELAY wait and CONCURRENCY and LAST_RUN abort, as in CDAP's Java builder (its
REST let all of them abort). A DELAY that says false is refused, as CDAP does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamsched.codec import constraint as native
from streamsched.codec.cdap.zone import iana
from streamsched.domain.constraint import Constraint

to_json = native.to_json

_ABORT: Final = frozenset({"CONCURRENCY", "LAST_RUN"})


def from_json(obj: object, path: str = "$") -> Constraint:
    """Reads a constraint.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the constraint could never be met, or contradicts itself.
    """
    return native.from_json(_heard(obj), path)


def _heard(obj: object) -> Any:
    if not isinstance(obj, Mapping):
        return obj
    heard = dict(obj)
    if isinstance(zone := obj.get("timeZone"), str):
        heard["timeZone"] = iana(zone)
    if obj.get("type") in _ABORT and obj.get("waitUntilMet") is None:
        heard["waitUntilMet"] = False
    return heard
