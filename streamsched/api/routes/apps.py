"""Apps: deploying programs and schedules as a unit; listing and deleting apps; pausing, disabling or enabling all
schedules of an app."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.access.definitions import check_destinations, check_recipients
from streamsched.api.body import BodyObject, reason_of, split_reason
from streamsched.api.bounds.request_limits import APP
from streamsched.api.deps import (
    CatalogDep,
    ClockDep,
    DryRunQuery,
    KeepQuery,
    NamespaceQuery,
    PlanQuery,
    ServicesDep,
)
from streamsched.api.paging import After, Limit, page
from streamsched.api.plan_views import CHANGES, PENDING_CHANGES, change_view, preview_view
from streamsched.api.preconditions import ExpectedDep, TaggedDep
from streamsched.api.rendering import json_response
from streamsched.api.routes.changes import change_name
from streamsched.api.routes.needs.checking import check_needs
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, OPERATE, VIEW, VIEW_LIST
from streamsched.api.views import APP_SUMMARY, APPS
from streamsched.catalog.requested_change import RequestedChange
from streamsched.codec.schedules import pause as pause_codec
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.domain.access.references import Reference, app_references
from streamsched.domain.access.sight import Sees, sees_nothing
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import AppRef
from streamsched.domain.schedules.app import AppDefinition

routes = Routes("/v1/apps", "apps")


@routes.get("", "List apps", may=VIEW_LIST, answers=APPS)
async def list_apps(
    catalog: CatalogDep, namespace: NamespaceQuery = None, after: After = "", limit: Limit = 100
) -> Response:
    """A page of the apps that have programs or schedules, ordered by id."""
    found = await catalog.reader.apps(namespace=namespace, after=after, limit=limit + 1)
    return json_response(page("apps", found, limit, APP_SUMMARY.write, lambda each: str(each.ref)))


@routes.get("/{namespace}/{app}", "Get an app", may=VIEW, answers=APP_SUMMARY.answer)
async def get_app(namespace: str, app: str, catalog: CatalogDep, tagged: TaggedDep) -> Response:
    """How many programs it has, and how many schedules in each state. `GET /v1/programs?app=` and
    `GET /v1/schedules?app=` list them.
    """
    ref = AppRef(namespace, app)
    return tagged(APP_SUMMARY.write(await catalog.reader.app_summary(ref)), await catalog.revision(ref))


@routes.delete("/{namespace}/{app}", "Delete an app", may=DEPLOY, answers=CHANGES.answer, conflict=True)
async def delete_app(
    namespace: str,
    app: str,
    catalog: CatalogDep,
    expected: ExpectedDep,
    caller: CallerDep,
    *,
    dry_run: DryRunQuery = False,
    plan: PlanQuery = None,
    reason: Annotated[str, Query(description="Stored in the history.")] = "",
) -> Response:
    """Deletes the app's schedules and programs and returns what changed and the losses of each schedule. Schedules of
    other apps of the namespace that wait for its programs lose that part of their trigger; a schedule whose trigger
    cannot hold without it is deleted. Those of other namespaces stay as they are and say so (`removed`);
    `waitingElsewhere` counts them. Waiting jobs end as OBSOLETE; active runs continue.
    """
    ref = AppRef(namespace, app)
    change = catalog.delete_app(ref, reason=reason).with_expected(expected)
    return await _plan_or_apply(ref, change, caller.sees, dry_run=dry_run, plan=plan)


@routes.put(
    "/{namespace}/{app}",
    "Deploy an app",
    may=DEPLOY,
    body="App",
    answers={200: CHANGES.answer, 202: PENDING_CHANGES.answer},
    conflict=True,
    limit=APP,
)
async def deploy(
    namespace: str,
    app: str,
    body: BodyObject,
    caller: CallerDep,
    services: ServicesDep,
    *,
    catalog: CatalogDep,
    expected: ExpectedDep,
    update_schedules: Annotated[
        bool | None,
        Query(
            alias="updateSchedules",
            description="Whether schedules that exist are updated. Default: `STREAMSCHED_UPDATE_SCHEDULES`.",
        ),
    ] = None,
    keep: KeepQuery = None,
    prune: Annotated[
        bool, Query(description="Whether programs, schedules and tasks that the body omits are deleted.")
    ] = True,
    dry_run: DryRunQuery = False,
    wait: Annotated[
        float | None,
        Query(
            ge=0,
            le=30,
            description="Longest wait for the log, in seconds; then 202. Default: the server's limit; then 503.",
        ),
    ] = None,
    plan: PlanQuery = None,
    origin: Annotated[
        str | None, Query(max_length=5000, description="Where the definition is from, such as `host:/path/of/file`.")
    ] = None,
) -> Response:
    """Replaces the definition of the app and returns what changed. Programs and schedules that the body omits are
    deleted, unless `prune` is false. What waits for a removed program in other apps of the namespace changes as with
    `DELETE /v1/programs/{program}`; in other namespaces it stays as it is (`waitingElsewhere`). Unchanged schedules
    keep their accumulated events. `origin` is stored, and plans show it as `deployedFrom`.

    Responds when the log has acknowledged the change. If `wait` seconds pass before that, the response is 202 with the
    number of `pending` records; `GET /v1/changes/{change}` shows the progress.
    """
    ref = AppRef(namespace, app)
    merged = {"namespace": namespace, "application": app, **body}
    update = services.settings.api.update_schedules if update_schedules is None else update_schedules
    # thousands of schedules take seconds: to read, to look through and to show
    definition, references = await asyncio.to_thread(_read, ref, merged, prune)
    check_destinations(definition.programs, services.settings.programs.outgoing_networks)
    check_recipients(definition, services.settings.mail)
    await check_needs(services, caller, ref, definition.programs, dry_run=dry_run)
    tasks = definition.tasks if prune else await services.work.graphs.merge_tasks(ref, definition.tasks)
    await services.work.graphs.check(tasks)
    await services.access.references.check(caller, namespace, references, dry_run=dry_run)
    change = catalog.deploy(definition, update, keep=keep, origin=origin).with_expected(expected)
    if dry_run:
        preview = await change.preview()
        await services.limits.quotas.check(namespace, preview.growth, now=services.clock.now())
        about = {"app": ref, "installation": services.settings.installation}
        return await asyncio.to_thread(lambda: json_response(preview_view(preview, caller.sees, **about)))
    applied = await change.apply(plan, within=wait)
    await services.work.graphs.put(ref, tasks)
    if not applied.pending:
        return await asyncio.to_thread(
            lambda: json_response(change_view(CHANGES, applied.change, caller.sees, app=ref))
        )
    name = change_name(applied.outbox)
    more = {"app": ref, "change": name, "pending": applied.pending}
    answer = await asyncio.to_thread(
        lambda: json_response(change_view(PENDING_CHANGES, applied.change, caller.sees, **more))
    )
    answer.status_code = HTTPStatus.ACCEPTED
    answer.headers["Location"] = f"/v1/changes/{name}"
    return answer


def _read(ref: AppRef, body: Mapping[str, Any], prune: bool) -> tuple[AppDefinition, Sequence[Reference]]:
    """The app that a body defines, and what it refers to.

    Raises:
        DecodeError, InvalidDefinitionError: as `app_from_json`, or it is another app.
    """
    definition = replace(app_from_json(body), prunes=prune)
    if definition.ref != ref:
        raise DecodeError("$.application", f"is {definition.ref}, but the path has {ref}")
    return definition, list(app_references(definition.programs, definition.schedules, definition.expectations))


@routes.order("/{namespace}/{app}/pause", "Pause an app", may=OPERATE, body=pause_codec.REQUEST, answers=CHANGES.answer)
async def pause(
    namespace: str,
    app: str,
    body: BodyObject,
    catalog: CatalogDep,
    clock: ClockDep,
    *,
    dry_run: DryRunQuery = False,
    plan: PlanQuery = None,
) -> Response:
    """Pauses the enabled schedules of the app. The body `{"mode"?, "until"?, "note"?, "reason"?}` is that of pausing
    one schedule. Returns what changed and the losses of each schedule.
    """
    ref = AppRef(namespace, app)
    reason, rest = split_reason(body)
    requested = pause_codec.from_json(rest, now=clock.now())
    change = catalog.pause_app(ref, requested, reason=reason)
    return await _plan_or_apply(ref, change, dry_run=dry_run, plan=plan)


@routes.order("/{namespace}/{app}/disable", "Disable an app", may=OPERATE, answers=CHANGES.answer)
async def disable(
    namespace: str,
    app: str,
    body: BodyObject,
    catalog: CatalogDep,
    *,
    dry_run: DryRunQuery = False,
    plan: PlanQuery = None,
) -> Response:
    """Disables the enabled and paused schedules of the app. Their accumulated events are dropped and their waiting jobs
    end as OBSOLETE. Body: `{"reason"?}`. Returns what changed and the losses of each schedule.
    """
    ref, reason = AppRef(namespace, app), reason_of(body)
    return await _plan_or_apply(ref, catalog.disable_app(ref, reason=reason), dry_run=dry_run, plan=plan)


@routes.order("/{namespace}/{app}/enable", "Enable an app", may=OPERATE, answers=CHANGES.answer)
async def enable(namespace: str, app: str, body: BodyObject, catalog: CatalogDep) -> Response:
    """Enables the disabled and paused schedules of the app. Body: `{"reason"?}`. Returns what changed."""
    ref = AppRef(namespace, app)
    change = (await catalog.enable_app(ref, reason=reason_of(body)).apply()).change
    return await asyncio.to_thread(lambda: json_response(change_view(CHANGES, change, app=ref)))


async def _plan_or_apply(
    ref: AppRef, change: RequestedChange, sees: Sees = sees_nothing, *, dry_run: bool, plan: str | None
) -> Response:
    """The answer is made in a thread: an app may have thousands of schedules."""
    before = await change.preview()
    applied = None if dry_run else await change.apply(plan)

    def answer() -> Response:
        if applied is None:
            return json_response(preview_view(before, sees, app=ref))
        more = {"app": ref, "ended_jobs": applied.ended_jobs}
        return json_response(change_view(CHANGES, applied.change, sees, losses=before.losses(), **more))

    return await asyncio.to_thread(answer)
