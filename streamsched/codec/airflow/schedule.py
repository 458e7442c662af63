"""The `schedule` of a DAG as a trigger, where it can be read."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from streamsched.codec.airflow.literal import AssetExpression, AssetName, Construction
from streamsched.codec.moving.draft import Report
from streamsched.domain.time.duration import duration_text

_PRESETS: Final = frozenset({"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"})
_CRON_TABLES: Final = frozenset({"CronTriggerTimetable", "CronDataIntervalTimetable"})
_DELTA_TABLES: Final = frozenset({"DeltaDataIntervalTimetable", "DeltaTriggerTimetable"})
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")
#: Longest name of a dataset that is made from an asset.
_LONGEST: Final = 100


def trigger_of(value: Any, zone: str, path: str, report: Report) -> dict[str, Any] | None:
    """The trigger as JSON; None when nothing starts the DAG by itself, or when there is no such trigger here, which
    the report says.
    """
    match value:
        case None:
            report.carries(path, "no schedule: only a person or another program starts it")
            return None
        case str() if value in _PRESETS or (not value.startswith("@") and value.strip()):
            return _time(value, zone)
        case str():
            report.cannot(path, f"schedule '{value}': start it by hand, or give it a trigger")
            return None
        case timedelta():
            report.differs(path, "an interval is counted from the deployment here, from `start_date` there")
            return {"type": "EVERY", "interval": duration_text(value)}
        case list():
            return _all(value, zone, path, report)
        case AssetName() | AssetExpression():
            return _assets(value, path, report)
        case Construction():
            return _timetable(value, zone, path, report)
        case _:
            report.cannot(path, f"schedule {value!r} is not understood")
            return None


def _time(expression: str, zone: str) -> dict[str, Any]:
    return {"type": "TIME", "cronExpression": expression, **({} if zone in {"", "UTC"} else {"timeZone": zone})}


def _all(items: list[Any], zone: str, path: str, report: Report) -> dict[str, Any] | None:
    """A list of assets: all of them."""
    parts = [trigger_of(item, zone, path, report) for item in items if isinstance(item, AssetName | AssetExpression)]
    found = [part for part in parts if part is not None]
    if len(found) != len(items) or not found:
        report.cannot(path, "the list has something that is no asset")
        return None
    return found[0] if len(found) == 1 else {"type": "AND", "triggers": found}


def _assets(value: AssetName | AssetExpression, path: str, report: Report) -> dict[str, Any]:
    if isinstance(value, AssetName):
        name = _ODD.sub("-", value.name).strip("-")[:_LONGEST] or "unnamed"
        report.differs(path, f"asset {value.name} is dataset {name}: a run must write it, or an event must name it")
        return {"type": "PARTITION", "dataset": name, "numPartitions": 1}
    parts = [_assets(part, path, report) for part in value.parts]
    return {"type": "AND" if value.every else "OR", "triggers": parts}


def _timetable(table: Construction, zone: str, path: str, report: Report) -> dict[str, Any] | None:
    own = table.named.get("timezone")
    at = own if isinstance(own, str) else zone
    if table.name in _CRON_TABLES:
        cron = table.named.get("cron", table.positional[0] if table.positional else None)
        if isinstance(cron, str):
            return trigger_of(cron, at, path, report)
    if table.name == "MultipleCronTriggerTimetable" and table.positional:
        parts = [trigger_of(each, at, path, report) for each in table.positional if isinstance(each, str)]
        return {"type": "OR", "triggers": [part for part in parts if part is not None]}
    if table.name in _DELTA_TABLES:
        delta = table.named.get("delta", table.positional[0] if table.positional else None)
        if isinstance(delta, timedelta):
            return trigger_of(delta, at, path, report)
    if table.name in {"AssetOrTimeSchedule", "DatasetOrTimeSchedule"}:
        given = table.named.get("assets", table.named.get("datasets"))
        parts = [trigger_of(each, at, path, report) for each in (table.named.get("timetable"), given)]
        found = [part for part in parts if part is not None]
        return {"type": "OR", "triggers": found} if found else None
    report.cannot(path, f"timetable {table.name} is not known here; give the schedule a trigger")
    return None
