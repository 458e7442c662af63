"""The `schedule` of a DAG as a trigger, and the interval of its runs, where they can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from streamsched.dialects.airflow.codec.jinja import LogicalTimes, MomentOfRun
from streamsched.dialects.airflow.codec.source.literal import AssetExpression, AssetName, Construction, Instant
from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.time_argument import NearTick
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.zone import zone_of

_PRESETS: Final = frozenset({"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"})
_POINTS: Final = frozenset({"CronTriggerTimetable", "DeltaTriggerTimetable"})
_INTERVALS: Final = frozenset({"CronDataIntervalTimetable", "DeltaDataIntervalTimetable"})
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
#: Longest name of a dataset that is made from an asset.
_LONGEST: Final = 100
#: A run whose logical date is the time at which it is due.
AT_DUE: Final = LogicalTimes(MomentOfRun(), MomentOfRun())
_UNKNOWN: Final = LogicalTimes(None, None)


class ScheduleError(Exception):
    """A schedule that there is not here; the text says why."""


@dataclass(frozen=True, slots=True)
class DagTrigger:
    """When a DAG runs.

    Attributes:
        trigger: as JSON.
        times: of its runs.
        clock: whether the trigger is a clock alone.
        changes: what means something else here; empty: nothing does.
    """

    trigger: dict[str, Any]
    times: LogicalTimes
    clock: bool
    changes: str = ""


def trigger_of(value: Any, start: Instant | None, *, intervals: bool) -> DagTrigger:
    """The trigger of a schedule.

    Args:
        start: the `start_date`, which has the zone.
        intervals: whether a cron expression or a duration means the interval before a run, as in Airflow 2.

    Raises:
        ScheduleError: there is none such here.
    """
    zone = start.zone if start is not None else ""
    match value:
        case str() if value in _PRESETS or (not value.startswith("@") and value.strip()):
            return _cron(value, zone, intervals=intervals)
        case timedelta() if value > timedelta(0):
            return _every(value, start, intervals=intervals)
        case AssetName() | AssetExpression():
            return _of_assets([value])
        case list():
            return _of_assets([*value])
        case Construction():
            return _timetable(value, start, intervals=intervals)
        case _:
            raise ScheduleError(f"schedule {value!r:.60} is not known here")


def _cron(expression: str, zone: str, *, intervals: bool) -> DagTrigger:
    try:
        tick = NearTick(expression, zone or "UTC")
    except InvalidError as exc:
        raise ScheduleError(f"'{expression[:60]}': {exc.reason}") from exc
    found = {"type": "TIME", "cronExpression": expression, **({} if zone in {"", "UTC"} else {"timeZone": zone})}
    if not intervals:
        return DagTrigger(found, AT_DUE, clock=True)
    return DagTrigger(found, LogicalTimes(MomentOfRun(tick), MomentOfRun()), clock=True)


def _every(interval: timedelta, start: Instant | None, *, intervals: bool) -> DagTrigger:
    found: dict[str, Any] = {"type": "EVERY", "interval": duration_text(interval)}
    changes = "an interval is counted from the deployment here, from start_date there"
    if start is not None and start.at is not None:
        try:
            found["start"] = start.at.replace(tzinfo=zone_of(start.zone or "UTC")).isoformat()
            changes = ""
        except (InvalidError, OverflowError):
            pass
    times = LogicalTimes(MomentOfRun(moved=-interval), MomentOfRun()) if intervals else AT_DUE
    return DagTrigger(found, times, clock=True, changes=changes)


def _of_assets(listed: list[Any]) -> DagTrigger:
    """All of the assets."""
    changes: list[str] = []
    if not listed or not all(isinstance(each, AssetName | AssetExpression) for each in listed):
        raise ScheduleError("the list has something that is no asset, or nothing")
    parts = [_assets(each, changes) for each in listed]
    found = parts[0] if len(parts) == 1 else {"type": "AND", "triggers": parts}
    changes.append("a run must write a dataset, or an event name it; the logical date is when all had come")
    return DagTrigger(found, AT_DUE, clock=False, changes="; ".join(dict.fromkeys(changes)))


def _assets(value: AssetName | AssetExpression, changes: list[str]) -> dict[str, Any]:
    if isinstance(value, AssetName):
        name = _ODD.sub("-", value.name).strip("-")[:_LONGEST] or "unnamed"
        changes.append(f"asset {value.name} is dataset {name}")
        return {"type": "PARTITION", "dataset": name, "numPartitions": 1}
    parts = [_assets(part, changes) for part in value.parts]
    return {"type": "AND" if value.every else "OR", "triggers": parts}


def _timetable(table: Construction, start: Instant | None, *, intervals: bool) -> DagTrigger:
    own = table.named.get("timezone")
    zone = own if isinstance(own, str) else start.zone if start is not None else ""
    first = table.positional[0] if table.positional else None
    at = Instant(zone, None if start is None else start.at)
    if table.name in _POINTS | _INTERVALS and not table.named.get("interval"):
        what = table.named.get("cron", table.named.get("delta", first))
        if isinstance(what, str | timedelta):
            return trigger_of(what, at, intervals=table.name in _INTERVALS)
    texts = [each for each in table.positional if isinstance(each, str)]
    if table.name == "MultipleCronTriggerTimetable" and texts and len(texts) == len(table.positional):
        parts = [_cron(each, zone, intervals=False).trigger for each in texts]
        return DagTrigger({"type": "OR", "triggers": parts}, AT_DUE, clock=True)
    if table.name in {"AssetOrTimeSchedule", "DatasetOrTimeSchedule"}:
        assets = table.named.get("assets", table.named.get("datasets"))
        times = trigger_of(table.named.get("timetable"), at, intervals=intervals)
        found = trigger_of(assets, at, intervals=intervals)
        together = {"type": "OR", "triggers": [times.trigger, found.trigger]}
        return DagTrigger(together, _UNKNOWN, clock=False, changes=found.changes)
    raise ScheduleError(f"timetable {table.name} is not known here")
