"""Schedules. Every change responds after the log has acknowledged it, so it applies to all events emitted after the
response.
"""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Literal

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep, require
from streamsched.api.body import BodyBytes, BodyObject, reason_of, split_reason
from streamsched.api.bounds.request_limits import LISTS
from streamsched.api.deps import (
    AppQuery,
    CatalogDep,
    ClockDep,
    DryRunQuery,
    KeepQuery,
    NamespaceQuery,
    PlanQuery,
    ServicesDep,
)
from streamsched.api.open_keys import KEYS, key_views
from streamsched.api.paging import After, Limit, page
from streamsched.api.plan_views import PLAN, preview_view
from streamsched.api.preconditions import ExpectedDep, TaggedDep, answer_stored
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, OPERATE, VIEW, VIEW_LIST, Rule, Scope
from streamsched.api.views import (
    HISTORY,
    HISTORY_ENTRY,
    SCHEDULE,
    SUSPENDED,
    VERSION,
    VERSIONS,
    WHY_NOT,
)
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.preview import Dropped
from streamsched.catalog.requested_change import RequestedChange
from streamsched.codec.json.reading import moment_ago
from streamsched.codec.schedules import pause as pause_codec
from streamsched.codec.schedules.schedule import submitted_schedule_from_json
from streamsched.domain.access.permission import Permission
from streamsched.domain.access.references import schedule_references
from streamsched.domain.errors import DecodeError
from streamsched.domain.limits import add_duration
from streamsched.domain.names import AppRef, ScheduleRef
from streamsched.launcher.whynot import explain_no_run

routes = Routes("/v1/schedules", "schedules")

State = Literal["enabled", "paused", "disabled", "error"]


@routes.get("", "List schedules", may=VIEW_LIST, answers=SCHEDULE.page("schedules", "SchedulePage"))
async def list_schedules(
    catalog: CatalogDep,
    *,
    namespace: NamespaceQuery = None,
    app: AppQuery = None,
    state: Annotated[list[State] | None, Query(description="Only schedules in this state; can be repeated.")] = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page, ordered by id."""
    owner = None if app is None else AppRef.parse(app)
    found = await catalog.reader.schedules(
        namespace=namespace, app=owner, states=state or (), after=after, limit=limit + 1
    )
    return json_response(page("schedules", found, limit, SCHEDULE.write, lambda each: str(each.record.definition.ref)))


@routes.post(
    "",
    "Create a schedule",
    may=Rule(Permission.DEPLOY, Scope.BODY),
    body="NewSchedule",
    answers={201: SCHEDULE.answer},
    conflict=True,
    missing=True,
    limit=LISTS,
)
async def create_schedule(
    raw: BodyBytes, body: BodyObject, caller: CallerDep, catalog: CatalogDep, services: ServicesDep
) -> Response:
    """Responds 201. The schedule is enabled unless the body has `"enabled": false`. 409 when it exists."""
    definition, enabled, _ = submitted_schedule_from_json(body)
    require(caller.may(Permission.DEPLOY, definition.ref.namespace))
    await services.limits.quota_watch.check_body(definition.ref.namespace, len(raw))
    await services.access.references.check(caller, definition.ref.namespace, schedule_references(definition))
    await catalog.create(definition, enabled=enabled).apply()
    return json_response(
        SCHEDULE.write(await catalog.reader.schedule(definition.ref)),
        status=HTTPStatus.CREATED,
        headers={"Location": f"/v1/schedules/{definition.ref}"},
    )


@routes.get("/{schedule}", "Get a schedule", may=VIEW, answers=SCHEDULE.answer)
async def get_schedule(schedule: str, catalog: CatalogDep, services: ServicesDep, tagged: TaggedDep) -> Response:
    """The schedule's definition, state and progress. `verdicts` counts its verdicts over all generations. `grants` are
    those of other namespaces that it relies on.
    """
    ref = ScheduleRef.parse(schedule)
    status = await catalog.reader.schedule(ref)
    totals = await services.events.traces.totals(ref)
    used = await services.grant_desk.grants_used_by(status.record.definition)
    return tagged(SCHEDULE.answer_of(status, verdicts=totals, grants=used or None), str(status.record.generation))


@routes.get("/{schedule}/keys", "List the open keys of a schedule", may=VIEW, answers=KEYS.answer)
async def list_keys(
    schedule: str,
    catalog: CatalogDep,
    services: ServicesDep,
    caller: CallerDep,
    *,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page of the open keys of a correlating schedule, ordered by key, each with its progress. `losses` counts the
    keys that ended incomplete, the events that were refused, and those that had no key. A key that is a run of a
    program (`runOf`) has what became of the programs whose ends it waits for (`missing`): the run that failed, and that
    a rerun of it completes the key.
    """
    status = await catalog.reader.schedule(ScheduleRef.parse(schedule))
    found = await services.schedules.keys.page(status.record.definition.ref, after=after, limit=limit)
    shown = await key_views(status.record, found, services.schedules.descendants, caller.sees)
    following = found[-1].key if len(found) == limit else ""
    return json_response(KEYS.answer_of(status, keys=shown, next=following))


@routes.get("/{schedule}/history", "Get the history of a schedule", may=VIEW, answers=HISTORY)
async def get_history(schedule: str, catalog: CatalogDep, limit: Limit = 100) -> Response:
    """The changes of the schedule with their reasons, newest first. Also available for deleted schedules."""
    entries = await catalog.reader.history("schedule", str(ScheduleRef.parse(schedule)), limit=limit)
    return json_response({"history": [HISTORY_ENTRY.write(each) for each in entries]})


@routes.get(
    "/{schedule}/versions",
    "List the versions of a schedule",
    may=VIEW,
    answers=VERSIONS,
)
async def list_versions(schedule: str, catalog: CatalogDep, limit: Limit = 100) -> Response:
    """The definitions that the schedule has had, newest first, at most 50. `generation` is the first one with the
    definition. `PUT /v1/schedules/{schedule}` with such a definition changes the schedule back to it.
    """
    found = await catalog.reader.versions(ScheduleRef.parse(schedule), limit=limit)
    return json_response({"versions": [VERSION.write(each) for each in found]})


@routes.get("/{schedule}/why-not", "Explain why a schedule started nothing", may=VIEW, answers=WHY_NOT.answer)
async def get_why_not(
    schedule: str,
    services: ServicesDep,
    since: Annotated[
        str | None,
        Query(description="Start: an instant, or a duration before now such as `2h`. Default: 1 day before."),
    ] = None,
    until: Annotated[str | None, Query(description="End, in the same format. Default: now.")] = None,
    limit: Limit = 100,
) -> Response:
    """Why the schedule did not start its program between `since` and `until`: a summary, the changes and jobs of that
    time, the verdicts of its events, and its progress now. `lines` are the newest `limit` of the span, oldest first;
    earlier ones come with the time of the first of them as `until`.
    """
    ref = ScheduleRef.parse(schedule)
    now = services.clock.now()
    end = moment_ago(until, "$.until", now) if until else now
    begin = moment_ago(since, "$.since", now) if since else add_duration(end, -timedelta(days=1))
    if begin > end:
        raise DecodeError("$.since", "is after `until`")
    span = await services.work.jobs.span(ref, since=begin, until=end)
    status = await services.catalog.reader.schedule(ref)
    return json_response(WHY_NOT.write(explain_no_run(status, span, since=begin, until=end, limit=limit)))


@routes.put(
    "/{schedule}",
    "Update a schedule",
    may=DEPLOY,
    body="ChangedSchedule",
    answers=SCHEDULE.answer,
    conflict=True,
    limit=LISTS,
)
async def update_schedule(
    schedule: str,
    body: BodyObject,
    caller: CallerDep,
    services: ServicesDep,
    expected: ExpectedDep,
    *,
    keep: KeepQuery = None,
    dry_run: DryRunQuery = False,
    plan: PlanQuery = None,
) -> Response:
    """Replaces the definition; an equal one changes nothing. The state (enabled, paused, disabled) does not change.
    With `keep`, or `"onChange": "keep"` in the body, the schedule keeps its waiting jobs and the accumulated events
    that fit the new trigger. Without either, a change of its trigger, consumption, late policy or program drops the
    events and ends the waiting jobs as OBSOLETE; every other change keeps both.
    """
    ref, catalog = ScheduleRef.parse(schedule), services.catalog
    named = {"namespace": ref.namespace, "application": ref.app, "name": ref.name}
    definition, _, keeps = submitted_schedule_from_json({**named, **body})
    keep = keep if keep is not None else keeps or None
    if definition.ref != ref:
        raise DecodeError("$.name", f"is {definition.ref}, but the path has {ref}")
    await services.access.references.check(caller, ref.namespace, schedule_references(definition), dry_run=dry_run)
    change = catalog.update(definition, keep=keep).with_expected(expected)
    if dry_run:
        return json_response(preview_view(await change.preview()))
    await change.apply(plan)
    status = await catalog.reader.schedule(ref)
    return answer_stored(SCHEDULE.write(status), str(status.record.generation))


@routes.order("/{schedule}/enable", "Enable or resume a schedule", may=OPERATE, answers=SCHEDULE.answer)
async def enable_schedule(schedule: str, body: BodyObject, catalog: CatalogDep) -> Response:
    """Enables a disabled schedule or resumes a paused one. `reason` (optional) is stored in the history."""
    ref = ScheduleRef.parse(schedule)
    await catalog.enable(ref, reason=reason_of(body)).apply()
    return json_response(SCHEDULE.write(await catalog.reader.schedule(ref)))


@routes.order("/{schedule}/disable", "Disable a schedule", may=OPERATE, answers=SUSPENDED.answer)
async def disable_schedule(
    schedule: str,
    body: BodyObject,
    catalog: CatalogDep,
    *,
    dry_run: DryRunQuery = False,
    plan: PlanQuery = None,
) -> Response:
    """Drops the accumulated events and ends waiting and ready jobs as OBSOLETE; active runs continue. `dropped` and
    `endedJobs` in the response are the losses. `reason` (optional) is stored in the history.
    """
    ref, reason = ScheduleRef.parse(schedule), reason_of(body)
    return await _plan_or_suspend(catalog, ref, catalog.disable(ref, reason=reason), dry_run=dry_run, plan=plan)


@routes.order("/{schedule}/pause", "Pause a schedule", may=OPERATE, body=pause_codec.REQUEST, answers=SUSPENDED.answer)
async def pause_schedule(
    schedule: str,
    body: BodyObject,
    catalog: CatalogDep,
    clock: ClockDep,
    *,
    dry_run: DryRunQuery = False,
    plan: PlanQuery = None,
) -> Response:
    """Body: `{"mode"?, "until"?, "note"?, "reason"?}`. `mode` is one of:

    - `keep` (default): accumulated events and waiting jobs are kept, new events count, and nothing starts.
    - `drop`: accumulated events are dropped, waiting jobs end as OBSOLETE and new events do not count; `dropped` and
      `endedJobs` in the response are the losses. `"keep": false` means the same.
    - `drain`: waiting jobs start as their constraints allow; new events do not count. Accumulated events are kept.
    - `backlog`: new events count and make jobs. Each waits, and later starts, as a job of its own.

    `until`, an instant or a duration, resumes the schedule at that time. `note` is shown with the schedule; `reason` is
    stored in the history. While jobs are held, their timeout does not run; it begins again when the schedule resumes.
    """
    reason, rest = split_reason(body)
    ref, requested = ScheduleRef.parse(schedule), pause_codec.from_json(rest, now=clock.now())
    change = catalog.pause(ref, requested, reason=reason)
    return await _plan_or_suspend(catalog, ref, change, dry_run=dry_run, plan=plan)


@routes.post(
    "/{schedule}/replay",
    "Replay the parked signals of a schedule in error",
    may=OPERATE,
    answers={202: SCHEDULE.answer},
    conflict=True,
)
async def replay_schedule(schedule: str, services: ServicesDep) -> Response:
    """Folds the parked signals again, in order, each at its original time. Responds 202 with the schedule before the
    replay; 409 when it is not in error. After the replay its `error` is null, or has the new cause and one more of
    `attempts`.
    """
    status = await services.schedules.replaying.replay(ScheduleRef.parse(schedule))
    return json_response(SCHEDULE.write(status), status=HTTPStatus.ACCEPTED)


@routes.delete("/{schedule}", "Delete a schedule", may=DEPLOY, answers={204: "", 200: PLAN.answer}, conflict=True)
async def delete_schedule(
    schedule: str,
    catalog: CatalogDep,
    expected: ExpectedDep,
    reason: Annotated[str, Query(description="Stored in the history.")] = "",
    *,
    dry_run: DryRunQuery = False,
    plan: PlanQuery = None,
) -> Response:
    """Deletes the schedule with its accumulated events; waiting jobs end as OBSOLETE, active runs continue. Responds
    204, or with `dry_run` 200 with the plan.
    """
    ref = ScheduleRef.parse(schedule)
    change = catalog.delete(ref, reason=reason).with_expected(expected)
    if dry_run:
        return json_response(preview_view(await change.preview()))
    await change.apply(plan)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _plan_or_suspend(
    catalog: Catalog, ref: ScheduleRef, change: RequestedChange, *, dry_run: bool, plan: str | None
) -> Response:
    before = await change.preview()
    if dry_run:
        return json_response(preview_view(before))
    applied = await change.apply(plan)
    dropped = before.losses().get(ref, Dropped())
    status = await catalog.reader.schedule(ref)
    return json_response(SUSPENDED.answer_of(status, dropped=dropped, ended_jobs=applied.ended_jobs))
