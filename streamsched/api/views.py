"""JSON of apps, programs and schedules. Names are dotted strings, times are UTC instants."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.records import halt as halt_codec
from streamsched.codec.schedules import pause as pause_codec
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import any_text, anything, nullable, ref
from streamsched.domain.history import HistoryEntry
from streamsched.domain.schedules.schedule import Program
from streamsched.launcher.whynot import WhyNot, WhyNotLine
from streamsched.store.catalog.records import AppSummary, ScheduleStatus
from streamsched.store.catalog.versions import ScheduleVersion
from streamsched.store.events.event_traces import VerdictTotal

#: Counts of `codec.views.explanation.losses`.
_LOSSES: Final = ("lost_keys", "dropped_keys", "refused_events", "keyless_events")


APP_SUMMARY: Final = JsonShape(
    AppSummary,
    outside=("schedules",),
    also=("totals",),
    about={
        "ref": About(name="id", schema=any_text("default.flights")),
        "programs": About(2),
        "totals": About(1, name="schedules", key="total"),
        "origin": About(name="deployedFrom", schema=nullable(any_text()), blank=True),
    },
)
APPS: Final = APP_SUMMARY.page("apps", "AppPage")
_LINE: Final = JsonShape(WhyNotLine, about={"subject": About(name="job")})
WHY_NOT: Final = JsonShape(
    WhyNot,
    about={
        "schedule": About("default.flights.weekly"),
        "summary": About("It waits for 4 partitions of default.flights."),
        "lines": About(shape=_LINE),
        "events": About("1 event was used"),
        "progress": About(schema=anything()),
    },
)
HISTORY_ENTRY: Final = JsonShape(
    HistoryEntry,
    outside=("subject_kind", "subject"),
    about={"action": About("created"), "detail": About(schema=anything())},
)
HISTORY: Final = HISTORY_ENTRY.whole_list("history", "History")
VERSION: Final = JsonShape(ScheduleVersion, about={"definition": About(schema=ref("ChangedSchedule"))})
VERSIONS: Final = VERSION.whole_list("versions", "ScheduleVersions")
VERDICT_TOTAL: Final = JsonShape(
    VerdictTotal,
    about={
        "verdict": About("used"),
        "late": About(schema=nullable(any_text()), blank=True),
        "total": About(7),
    },
)


def program_view(program: Program) -> dict[str, Any]:
    """A program: its definition and its id."""
    return {"id": str(program.ref), **program_to_json(program)}


def schedule_view(status: ScheduleStatus) -> dict[str, Any]:
    """A schedule: its definition, its trigger as a sentence (`when`), its state and its progress."""
    record = status.record
    return {
        "id": str(record.definition.ref),
        **schedule_to_json(record.definition),
        "when": str(record.definition.trigger),
        "enabled": record.enabled,
        "state": record.status,
        "pause": None if record.pause is None else pause_codec.to_json(record.pause),
        "generation": record.generation,
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
        "nextTickAt": status.next_tick_at,
        "waitingJobs": status.waiting_jobs,
        "openKeys": status.open_keys,
        "losses": losses_view(status),
        "progress": status.progress,
        "error": None if status.halt is None else {**halt_codec.to_json(status.halt), "why": status.halt.reason},
        "removed": [
            {"program": str(each.program), "at": each.at, "by": each.by, "text": str(each)} for each in status.removed
        ],
    }


def losses_view(status: ScheduleStatus) -> dict[str, int | str] | None:
    """Keys and events that the current generation did not keep; None when there are none."""
    progress = status.progress or {}
    lost, dropped, refused, keyless = (progress.get(name, 0) for name in _LOSSES)
    if not lost and not refused and not keyless:
        return None
    return {
        "expiredKeys": lost - dropped,
        "droppedKeys": dropped,
        "refusedEvents": refused,
        "keylessEvents": keyless,
        "keylessWhy": progress.get("keyless_why", ""),
    }
