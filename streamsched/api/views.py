"""What clients see of jobs, runs and schedules: names as dotted texts, times as UTC instants."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from streamsched.catalog.preview import Preview
from streamsched.codec import explanation, native
from streamsched.codec import halt as halt_codec
from streamsched.codec import pause as pause_codec
from streamsched.codec.schedule import program_to_json, schedule_to_json
from streamsched.codec.state import decode_key
from streamsched.domain.duration import duration_text
from streamsched.domain.explain import explain_cell
from streamsched.domain.fold import Definition
from streamsched.domain.load import STALE
from streamsched.domain.schedule import Program
from streamsched.launcher.why import Why
from streamsched.launcher.whynot import WhyNot
from streamsched.ports.catalog import AppChange, Decision, ProgramChange, ScheduleRecord, ScheduleStatus
from streamsched.ports.clusters import ClusterRecord
from streamsched.ports.groups import GroupRecord
from streamsched.ports.jobs import JobRecord
from streamsched.ports.pools import PoolRecord
from streamsched.ports.progress import OpenKey
from streamsched.ports.runs import RunRecord


def program_view(program: Program) -> dict[str, Any]:
    """A program as JSON: its definition and its id."""
    return {"id": str(program.ref), **program_to_json(program)}


def schedule_view(status: ScheduleStatus) -> dict[str, Any]:
    """A schedule as JSON: its definition, its trigger in words (`when`), and how far it has come."""
    record = status.record
    return {
        "id": str(record.definition.ref),
        **schedule_to_json(record.definition),
        "when": str(record.definition.trigger),
        "enabled": record.enabled,
        "pause": None if record.pause is None else pause_codec.to_json(record.pause),
        "generation": record.generation,
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
        "nextTickAt": status.next_tick_at,
        "waitingJobs": status.waiting_jobs,
        "openKeys": status.open_keys,
        "progress": status.progress,
        "error": None if status.halt is None else {**halt_codec.to_json(status.halt), "why": status.halt.why},
    }


def key_view(record: ScheduleRecord, key: OpenKey) -> dict[str, Any] | None:
    """An open key as JSON; None when it is of another generation than the definition that stands."""
    if key.generation != record.generation:
        return None
    judge = Definition(record.definition.ref, record.generation, record.enabled, record.definition.trigger)
    cell = decode_key(native.dumps(key.state), judge, key.key)
    if cell is None:
        return None
    progress = explanation.to_json(explain_cell(judge.plan, cell, key.key))
    return {"key": key.key, "openedAt": cell.opened_at, "updatedAt": key.at, "progress": progress}


def change_view(change: AppChange) -> dict[str, Any]:
    """What changed, as JSON."""
    return {
        "programs": [_program_change(each) for each in change.programs],
        "schedules": [
            {
                "id": str(each.after.definition.ref),
                "action": each.action,
                "generation": each.after.generation,
                "enabled": each.after.enabled,
                "keeps": each.keeps,
                "reason": each.reason,
            }
            for each in change.schedules
        ],
    }


def preview_view(preview: Preview) -> dict[str, Any]:
    """What would change, as JSON."""
    return {
        "dryRun": True,
        "differs": preview.differs,
        "programs": [_program_change(each) for each in preview.programs],
        "schedules": [
            {
                "id": str(each.schedule),
                "action": each.action,
                "reason": each.reason,
                "keeps": each.keeps,
                "fields": [{"field": one.field, "before": one.before, "after": one.after} for one in each.fields],
                "accumulated": [
                    {"leaf": one.leaf, "have": one.have, "need": one.need, "fits": one.fits} for one in each.stakes
                ],
                "waitingJobs": each.waiting_jobs,
            }
            for each in preview.schedules
        ],
    }


def _program_change(change: ProgramChange) -> dict[str, Any]:
    return {"id": str(change.program.ref), "action": change.action, "reason": change.reason}


def job_view(job: JobRecord) -> dict[str, Any]:
    """A job as JSON."""
    return {
        "id": job.id,
        "schedule": str(job.schedule),
        "generation": job.generation,
        "sequence": job.sequence,
        "program": _text(job.program),
        "state": job.state,
        "reason": job.reason,
        "satisfiedAt": job.satisfied_at,
        "createdAt": job.created_at,
        "nextCheckAt": job.next_check_at,
        "waiting": list(job.waiting),
        "joined": job.joined,
        "endedAt": job.ended_at,
        "runs": list(job.runs),
        "missed": list(job.missed),
    }


def why_view(why: Why) -> dict[str, Any]:
    """The reasons of a job as JSON."""
    return {
        "job": why.job,
        "state": why.state,
        "summary": why.summary,
        "since": why.since,
        "clauses": [
            {
                "text": clause.text,
                "needs": clause.needs,
                "holds": clause.holds,
                "at": clause.at,
                "holders": [
                    {
                        "run": each.run,
                        "href": f"/v1/runs/{each.run}",
                        "state": each.state,
                        "since": each.since,
                        "schedule": _text(each.schedule),
                    }
                    for each in clause.holders
                ],
            }
            for clause in why.clauses
        ],
        "earliest": why.earliest,
        "earliestBecause": why.earliest_because,
        "timeout": why.timeout,
        "deadlines": list(why.deadlines),
        "satisfiedBy": list(why.satisfied_by),
        "runs": list(why.runs),
        "history": [
            {"at": each.at, "subject": each.subject, "action": each.action, "reason": each.reason}
            for each in why.history
        ],
    }


def why_not_view(told: WhyNot) -> dict[str, Any]:
    """Why a schedule started nothing, as JSON."""
    return {
        "schedule": told.schedule,
        "summary": told.summary,
        "lines": [{"at": line.at, "job": line.subject, "text": line.text} for line in told.lines],
        "events": list(told.events),
        "progress": told.progress,
    }


def group_view(group: GroupRecord) -> dict[str, Any]:
    """A group as JSON."""
    return {
        "name": group.name,
        "limit": group.occupancy.limit,
        "taken": group.occupancy.taken,
        "slots": [{"run": slot.run, "weight": slot.weight} for slot in group.occupancy.slots],
        "waiting": group.waiting,
        "changedAt": group.changed_at,
    }


def pool_view(pool: PoolRecord) -> dict[str, Any]:
    """A pool as JSON; `age` is what a point of priority is worth."""
    return {
        "name": pool.name,
        "size": pool.places.limit,
        "taken": pool.places.taken,
        "runs": [slot.run for slot in pool.places.slots],
        "waiting": pool.waiting,
        "age": duration_text(pool.age),
        "schedules": [
            {"id": str(each.schedule), "priority": each.priority, "online": each.online} for each in pool.members
        ],
        "changedAt": pool.changed_at,
    }


def decision_view(line: Decision) -> dict[str, Any]:
    """A line of history as JSON."""
    return {"at": line.at, "action": line.action, "reason": line.reason, "detail": line.detail}


def cluster_view(cluster: ClusterRecord, url: str | None, *, now: datetime) -> dict[str, Any]:
    """A cluster as JSON; `probe` is the URL it is asked at, without what may be secret, null where there is none."""
    reading = cluster.reading
    return {
        "name": cluster.name,
        "probe": None if url is None else _public(url),
        "freeCores": reading and reading.free_cores,
        "freeMemory": reading and reading.free_memory,
        "running": reading and reading.running,
        "readAt": cluster.at,
        "stale": cluster.at is None or now - cluster.at > STALE,
        "failed": cluster.failed,
        "failingSince": cluster.failing,
        "waiting": cluster.waiting,
        "gates": [
            {
                "needs": str(each.load),
                "open": each.gate.open,
                "since": each.gate.since,
                "started": each.gate.started,
                "startsPerReading": each.load.starts,
                "waiting": each.waiting,
            }
            for each in cluster.gates
        ],
    }


def _public(url: str) -> str:
    """Without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def run_view(run: RunRecord) -> dict[str, Any]:
    """A run as JSON."""
    return {
        "id": run.id,
        "job": run.job,
        "schedule": _text(run.schedule),
        "program": str(run.program),
        "attempt": run.attempt,
        "arguments": dict(run.arguments),
        "state": run.state,
        "reason": run.reason,
        "createdAt": run.created_at,
        "startedAt": run.started_at,
        "endedAt": run.ended_at,
        "exitCode": run.exit_code,
        "runner": run.runner,
        "heartbeatAt": run.heartbeat_at,
        "logPath": run.log_path,
    }


def _text(name: object) -> str | None:
    return None if name is None else str(name)
