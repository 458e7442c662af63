"""Finds the parts of a schedule that CDAP does not have. CDAP's clients reject a whole response that contains a trigger
or constraint of an unknown type; unknown fields they ignore.

    >>> [*extensions({"trigger": {"type": "EVERY", "interval": "1h"}, "overlap": "queue"})]
    ['$.trigger.type', '$.overlap']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from streamsched.domain.json_value import member_path

_DETAIL: Final = frozenset(
    {
        "namespace",
        "application",
        "applicationVersion",
        "name",
        "description",
        "program",
        "properties",
        "trigger",
        "constraints",
        "timeoutMillis",
        "status",
        "scheduleStatus",
        "lastUpdateTime",
    }
)
_TRIGGERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "TIME": frozenset({"cronExpression"}),
        "PARTITION": frozenset({"dataset", "numPartitions"}),
        "STREAM_SIZE": frozenset({"streamId", "triggerMB"}),
        "PROGRAM_STATUS": frozenset({"programId", "programStatuses"}),
        "AND": frozenset({"triggers"}),
        "OR": frozenset({"triggers"}),
    }
)
_CONSTRAINTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "CONCURRENCY": frozenset({"maxConcurrency", "waitUntilMet"}),
        "DELAY": frozenset({"millisAfterTrigger", "waitUntilMet"}),
        "LAST_RUN": frozenset({"millisSinceLastRun", "waitUntilMet"}),
        "TIME_RANGE": frozenset({"startTime", "endTime", "timeZone", "waitUntilMet"}),
    }
)
_STATUSES: Final = frozenset({"COMPLETED", "FAILED", "KILLED"})


def is_readable(detail: Mapping[str, Any]) -> bool:
    """Whether CDAP's clients can read it, ignoring unknown fields."""
    return not any(path.endswith(".type") for path in extensions(detail))


def extensions(detail: Mapping[str, Any], path: str = "$") -> Iterator[str]:
    """The paths of everything in a `ScheduleDetail` (`codec.schedule`) that CDAP does not have."""
    yield from _of_trigger(detail.get("trigger", {}), member_path(path, "trigger"))
    for index, constraint in enumerate(detail.get("constraints", ())):
        yield from _of_constraint(constraint, member_path(member_path(path, "constraints"), index))
    for name in detail:
        if name not in _DETAIL:
            yield member_path(path, name)


def _of_trigger(trigger: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _unknown_fields(trigger, _TRIGGERS, path)
    for index, status in enumerate(trigger.get("programStatuses", ())):
        if status not in _STATUSES:
            yield member_path(member_path(path, "programStatuses"), index)
    if trigger.get("type") in {"AND", "OR"}:
        for index, child in enumerate(trigger["triggers"]):
            yield from _of_trigger(child, member_path(member_path(path, "triggers"), index))


def _of_constraint(constraint: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _unknown_fields(constraint, _CONSTRAINTS, path)
    for name in ("startTime", "endTime"):
        if len(constraint.get(name, "")) > len("HH:mm"):
            yield member_path(path, name)


def _unknown_fields(thing: Mapping[str, Any], known: Mapping[str, frozenset[str]], path: str) -> Iterator[str]:
    fields = known.get(thing.get("type", ""))
    if fields is None:
        yield member_path(path, "type")
        return
    for name in thing:
        if name != "type" and name not in fields:
            yield member_path(path, name)
