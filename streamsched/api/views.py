"""JSON of apps, programs and schedules. Names are dotted strings, times are UTC instants."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.records import halt as halt_codec
from streamsched.codec.schedules import pause as pause_codec
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.history import HistoryEntry
from streamsched.domain.schedules.schedule import Program
from streamsched.launcher.whynot import WhyNot
from streamsched.store.catalog.records import AppSummary, ScheduleStatus
from streamsched.store.catalog.versions import ScheduleVersion

#: Counts of `codec.views.explanation.losses`.
_LOSSES: Final = ("lost_keys", "dropped_keys", "refused_events", "keyless_events")


def app_view(app: AppSummary) -> dict[str, Any]:
    """An app: the number of its programs, and of its schedules by state."""
    return {
        "id": str(app.ref),
        "programs": app.programs,
        "schedules": {"total": sum(app.schedules.values()), **app.schedules},
        "deployedAt": app.deployed_at,
        "deployedFrom": app.origin or None,
    }


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


def why_not_view(explained: WhyNot) -> dict[str, Any]:
    """The explanation why a schedule started nothing."""
    return {
        "schedule": explained.schedule,
        "summary": explained.summary,
        "lines": [{"at": line.at, "job": line.subject, "text": line.text} for line in explained.lines],
        "events": list(explained.events),
        "progress": explained.progress,
    }


def decision_view(entry: HistoryEntry) -> dict[str, Any]:
    """An entry of a schedule's history."""
    return {"at": entry.at, "action": entry.action, "reason": entry.reason, "detail": entry.detail}


def version_view(version: ScheduleVersion) -> dict[str, Any]:
    """A definition that a schedule has had."""
    return {
        "generation": version.generation,
        "at": version.at,
        "reason": version.reason,
        "definition": version.definition,
    }
