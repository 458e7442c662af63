"""One schedule: what starts it, what is missing, why it is not running."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from streamsched.api.open_keys import key_views
from streamsched.api.routing.rules import VIEW
from streamsched.catalog.change import time_leaves
from streamsched.domain.access.permission import Permission
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.jobs.job import JobState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.key_columns import all_column_names
from streamsched.domain.schedules.pause import PauseMode
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.ticks.forecast import Forecast, forecast
from streamsched.domain.triggers.trigger import Cron, Every, Partitions, leaves
from streamsched.launcher.why import Why, explain_job
from streamsched.store.catalog.records import ScheduleStatus
from streamsched.store.expectations.records import ExpectationRecord
from streamsched.store.jobs.job_record import JobRecord
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line, schedule_action
from streamsched.web.views.key_matrix import key_matrix
from streamsched.web.views.names import short_name
from streamsched.web.views.reasons import reason_of
from streamsched.web.views.states import job_word
from streamsched.web.views.strips import StripBar, strip
from streamsched.web.views.trigger_tree import TreeNode, all_leaves, tree_of
from streamsched.web.visit import PageRoute, Visit

_JOBS: Final = 20
_TICKS: Final = 8
_KEYS: Final = 30
_CHANGES: Final = 12
_EXPECTED: Final = 20
#: Jobs whose events are in the key matrix.
_USED: Final = 20
#: Waiting jobs among which the oldest is explained.
_WAITING: Final = 200
#: What was done by an action, for the page after it.
DONE: Final = {
    "paused": "It is paused.",
    "resumed": "It is enabled again.",
    "reset": "It starts over: nothing is counted yet.",
    "submitted": "A job was made. It starts as soon as its constraints permit.",
}


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/schedules/{schedule}", VIEW, partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """Why it has not fired, what each leaf of its trigger has, its open keys, its last jobs, and its next ticks."""
    ref = ScheduleRef.parse(visit.param("schedule"))
    api = visit.api
    status = await api.catalog.reader.schedule(ref)
    jobs = await api.work.jobs.list_recent(schedule=ref, limit=_JOBS)
    explained = await _explain_oldest_waiting(visit, status, ref)
    tree = tree_of(status.record.definition.trigger, status.progress)
    keys = await api.schedules.keys.page(ref, after="", limit=_KEYS) if status.open_keys else ()
    used = await visit.api.work.activity.consumed_events(str(ref), limit=_USED)
    views = await key_views(status.record, keys, api.schedules.descendants, visit.caller.sees)
    trigger = status.record.definition.trigger
    matrix = key_matrix(trigger, status.progress, views, used)
    late = await visit.api.work.activity.late_events([str(ref)], matrix.events) if matrix.events else frozenset()
    if late:
        matrix = key_matrix(trigger, status.progress, views, used, {event for _, event in late})
    return renderer.page(
        visit,
        "schedule.html",
        matrix=matrix,
        stakes=_stakes(status, tree),
        status=status,
        record=status.record,
        definition=status.record.definition,
        app_graph=await visit.graph_of(ref),
        reason=reason_of(status, tree, jobs, explained, visit.times),
        tree=tree,
        shown_keys=len(views),
        zones=_zones(status.record),
        datasets=_datasets(status.record),
        expectations=await _read_expectations(visit, ref),
        token=f"page-{secrets.token_hex(8)}",
        forecasts=await asyncio.to_thread(_forecasts, status.record, visit),
        jobs=jobs,
        strip=strip(job_bars(jobs)),
        changes=await api.catalog.reader.history("schedule", str(ref), limit=_CHANGES),
        may_operate=visit.may(Permission.OPERATE, ref.namespace),
        modes=[(mode.value, mode.text) for mode in PauseMode],
        columns=_columns(status.record),
        done=DONE.get(visit.query("done"), ""),
        same=_commands(visit, status, explained),
    )


async def _read_expectations(visit: Visit, ref: ScheduleRef) -> list[ExpectationRecord]:
    found = await visit.api.schedules.expectations.list_about(SubjectKind.SCHEDULE, str(ref), limit=_EXPECTED)
    return [each for each in found if visit.caller.sees(each.expectation.ref.namespace)]


async def _explain_oldest_waiting(visit: Visit, status: ScheduleStatus, ref: ScheduleRef) -> Why | None:
    if not status.waiting_jobs:
        return None
    waiting = await visit.api.work.jobs.list_recent(schedule=ref, states=[JobState.PENDING_CONSTRAINT], limit=_WAITING)
    return (
        await explain_job(waiting[-1].id, jobs=visit.api.work.jobs, clock=visit.api.clock, sees=visit.caller.sees)
        if waiting
        else None
    )


def _forecasts(record: ScheduleRecord, visit: Visit) -> list[tuple[str, Forecast]]:
    ref = record.definition.ref
    return [
        (str(leaf), forecast(leaf, visit.now, _TICKS, created_at=record.created_at, schedule=ref))
        for leaf in time_leaves(record.definition.trigger).values()
    ]


def job_bars(jobs: Sequence[JobRecord]) -> list[StripBar]:
    """Bars of jobs that are listed newest first."""
    return [
        StripBar(job.id, job_word(job.state, job.outcome and job.outcome.state), _took(job)) for job in reversed(jobs)
    ]


def _took(job: JobRecord) -> timedelta | None:
    outcome = job.outcome
    if outcome is None or outcome.started_at is None or outcome.ended_at is None:
        return None
    return outcome.ended_at - outcome.started_at


def _stakes(status: ScheduleStatus, tree: TreeNode) -> list[str]:
    """What the schedule would lose by starting over."""
    found = [f"{leaf.count_text} of {leaf.text}" for leaf in all_leaves(tree) if leaf.have and leaf.text]
    if status.open_keys:
        found = [f"{status.open_keys:,} open {'key' if status.open_keys == 1 else 'keys'}"]
    if status.waiting_jobs:
        found.append(f"{status.waiting_jobs:,} waiting {'job' if status.waiting_jobs == 1 else 'jobs'}")
    return found


def _zones(record: ScheduleRecord) -> list[str]:
    """The zones of its clocks."""
    return sorted({leaf.zone for leaf in leaves(record.definition.trigger) if isinstance(leaf, Cron | Every)})


def _datasets(record: ScheduleRecord) -> list[str]:
    """The datasets whose partitions it waits for."""
    return sorted({str(leaf.dataset) for leaf in leaves(record.definition.trigger) if isinstance(leaf, Partitions)})


def _columns(record: ScheduleRecord) -> Sequence[str]:
    """The columns of the key that a submission needs."""
    return sorted(all_column_names(record.definition.trigger))


def _commands(visit: Visit, status: ScheduleStatus, explained: Why | None) -> dict[str, SameAs]:
    name, url = str(status.record.definition.ref), visit.url
    found: dict[str, Any] = {
        "pause": schedule_action(url, name, "pause", ["--note", "WHY"], {"mode": "keep", "note": "WHY"}),
        "resume": schedule_action(url, name, "resume"),
        "run": SameAs(
            command_line("run", "start", "--schedule", short_name(name)), curl_line(url, f"/v1/schedules/{name}/runs")
        ),
        "why": SameAs(command_line("schedule", "why-not", short_name(name))),
        "reset": SameAs(
            command_line("schedule", "disable", short_name(name)), curl_line(url, f"/v1/schedules/{name}/disable")
        ),
    }
    if explained is not None:
        found["why"] = SameAs(command_line("job", "why", short_name(explained.job)))
    return found
