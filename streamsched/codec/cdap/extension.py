"""What of a schedule CDAP has no word for. A client of CDAP's own reads such a trigger or constraint as an unknown type
and refuses the whole answer, a list of a hundred schedules with it; fields it does not know it skips.

    >>> [*extensions({"trigger": {"type": "EVERY", "interval": "1h"}, "overlap": "queue"})]
    ['$.trigger.type', '$.overlap']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from streamsched.codec.reading import below

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


def readable(detail: Mapping[str, Any]) -> bool:
    """Whether a client of CDAP's own can read it, though it may skip fields."""
    return not any(path.endswith(".type") for path in extensions(detail))


def extensions(detail: Mapping[str, Any], path: str = "$") -> Iterator[str]:
    """The paths of everything in a `ScheduleDetail`, as `codec.cdap.schedule` writes it, that only we know."""
    yield from _of_trigger(detail.get("trigger", {}), below(path, "trigger"))
    for place, constraint in enumerate(detail.get("constraints", ())):
        yield from _of_constraint(constraint, below(below(path, "constraints"), place))
    for name in detail:
        if name not in _DETAIL:
            yield below(path, name)


def _of_trigger(trigger: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _of(trigger, _TRIGGERS, path)
    for place, status in enumerate(trigger.get("programStatuses", ())):
        if status not in _STATUSES:
            yield below(below(path, "programStatuses"), place)
    if trigger.get("type") in {"AND", "OR"}:
        for place, child in enumerate(trigger["triggers"]):
            yield from _of_trigger(child, below(below(path, "triggers"), place))


def _of_constraint(constraint: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from _of(constraint, _CONSTRAINTS, path)
    for name in ("startTime", "endTime"):
        if len(constraint.get(name, "")) > len("HH:mm"):
            yield below(path, name)


def _of(thing: Mapping[str, Any], known: Mapping[str, frozenset[str]], path: str) -> Iterator[str]:
    fields = known.get(thing.get("type", ""))
    if fields is None:
        yield below(path, "type")
        return
    for name in thing:
        if name != "type" and name not in fields:
            yield below(path, name)
