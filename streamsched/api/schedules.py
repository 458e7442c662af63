"""Schedules: what starts what, when. Every change returns only when the log has acknowledged it: events emitted after
the answer are judged by it.
"""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import AwareDatetime

from streamsched.api.body import BodyObject, reason_of, reasoned
from streamsched.api.deps import CatalogDep, ClockDep, KeysDep, ServicesDep
from streamsched.api.rendering import rendered
from streamsched.api.verdicts import total_view
from streamsched.api.views import decision_view, key_view, preview_view, schedule_view, why_not_view
from streamsched.codec import pause as pause_codec
from streamsched.codec.schedule import submitted_schedule_from_json
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import ScheduleRef
from streamsched.launcher.whynot import account

router = APIRouter(prefix="/v1/schedules")


@router.get("")
async def list_schedules(catalog: CatalogDep, namespace: Annotated[str | None, Query()] = None) -> Response:
    """Ordered by id."""
    return rendered({"schedules": [schedule_view(each) for each in await catalog.list(namespace=namespace)]})


@router.post("")
async def create_schedule(body: BodyObject, catalog: CatalogDep) -> Response:
    """201; 409 when it exists. It is created enabled unless the body says `"enabled": false`."""
    definition, enabled, _ = submitted_schedule_from_json(body)
    created = await catalog.create(definition, enabled=enabled)
    return rendered(
        schedule_view(created),
        status=HTTPStatus.CREATED,
        headers={"Location": f"/v1/schedules/{definition.ref}"},
    )


@router.get("/{schedule}")
async def get_schedule(schedule: str, catalog: CatalogDep, services: ServicesDep) -> Response:
    """With `verdicts`: what it made of events so far, whichever generation."""
    ref = ScheduleRef.parse(schedule)
    view = schedule_view(await catalog.get(ref))
    return rendered({**view, "verdicts": [total_view(total) for total in await services.trails.totals(ref)]})


@router.get("/{schedule}/keys")
async def list_keys(
    schedule: str,
    catalog: CatalogDep,
    keys: KeysDep,
    *,
    after: Annotated[str, Query()] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The open keys of a schedule that correlates, by key, each with what it has and what it waits for. `next` is what
    to say as `after` for more.
    """
    status = await catalog.get(ScheduleRef.parse(schedule))
    found = await keys.of(status.record.definition.ref, after=after, limit=limit)
    shown = [view for each in found if (view := key_view(status.record, each)) is not None]
    return rendered({"keys": shown, **({"next": found[-1].key} if len(found) == limit else {})})


@router.get("/{schedule}/history")
async def get_history(
    schedule: str, catalog: CatalogDep, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Response:
    """What was done to the schedule, newest first, and why; also to one that was deleted."""
    lines = await catalog.history(ScheduleRef.parse(schedule), limit=limit)
    return rendered({"history": [decision_view(each) for each in lines]})


@router.get("/{schedule}/why-not")
async def get_why_not(
    schedule: str,
    services: ServicesDep,
    since: Annotated[AwareDatetime | None, Query()] = None,
    until: Annotated[AwareDatetime | None, Query()] = None,
) -> Response:
    """What kept the schedule from starting anything in a span of time: the last day, unless it says otherwise."""
    ref = ScheduleRef.parse(schedule)
    end = until or services.clock.now()
    begin = since or end - timedelta(days=1)
    if begin > end:
        raise DecodeError("$.since", "is after the end of the span")
    span = await services.jobs.span(ref, since=begin, until=end)
    return rendered(why_not_view(account(await services.catalog.get(ref), span, since=begin, until=end)))


@router.put("/{schedule}")
async def update_schedule(
    schedule: str,
    body: BodyObject,
    catalog: CatalogDep,
    *,
    keep: Annotated[bool | None, Query()] = None,
    dry_run: Annotated[bool, Query()] = False,
) -> Response:
    """Another definition; an equal one changes nothing. Enabled stays enabled, disabled stays disabled. With `keep` (or
    `"onChange": "keep"` in the body) it goes on with what fits of what it has accumulated, and with its waiting jobs;
    otherwise it starts anew. With `dry_run` nothing changes, and the answer says what would.
    """
    ref = ScheduleRef.parse(schedule)
    named = {"namespace": ref.namespace, "application": ref.app, "name": ref.name}
    definition, _, keeps = submitted_schedule_from_json({**named, **body})
    if keep is not None:
        keeps = keep
    if definition.ref != ref:
        raise DecodeError("$.name", f"is {definition.ref}, but the address says {ref}")
    if dry_run:
        return rendered(preview_view(await catalog.preview_update(definition, keep=keeps)))
    return rendered(schedule_view(await catalog.update(definition, keep=keeps)))


@router.post("/{schedule}/enable")
async def enable_schedule(schedule: str, body: BodyObject, catalog: CatalogDep) -> Response:
    """`{"reason"?}`: who wants it and why, for its history."""
    return rendered(schedule_view(await catalog.enable(ScheduleRef.parse(schedule), reason=reason_of(body))))


@router.post("/{schedule}/disable")
async def disable_schedule(schedule: str, body: BodyObject, catalog: CatalogDep) -> Response:
    """Waiting and ready jobs end as OBSOLETE; running runs go on. `{"reason"?}`: who wants it and why."""
    return rendered(schedule_view(await catalog.disable(ScheduleRef.parse(schedule), reason=reason_of(body))))


@router.post("/{schedule}/pause")
async def pause_schedule(schedule: str, body: BodyObject, catalog: CatalogDep, clock: ClockDep) -> Response:
    """`{"keep"?, "until"?, "note"?, "reason"?}`. With `keep` what it has and what comes meanwhile counts, and
    its jobs wait; without it, all of that ends as with `disable`. `until` is an instant or a duration: it is resumed
    then.
    """
    reason, rest = reasoned(body)
    wanted = pause_codec.from_json(rest, now=clock.now())
    return rendered(schedule_view(await catalog.pause(ScheduleRef.parse(schedule), wanted, reason=reason)))


@router.post("/{schedule}/replay")
async def replay_schedule(schedule: str, services: ServicesDep) -> Response:
    """202 with the schedule as it stood; 409 when it is not in error. What is parked is folded again, in order, each
    signal at the time it came: soon its `error` is gone, or has one of its `attempts` more and says what it is now.
    """
    status = await services.replaying.replay(ScheduleRef.parse(schedule))
    return rendered(schedule_view(status), status=HTTPStatus.ACCEPTED)


@router.delete("/{schedule}")
async def delete_schedule(schedule: str, catalog: CatalogDep, reason: Annotated[str, Query()] = "") -> Response:
    """204. `reason`: who wants it and why."""
    await catalog.delete(ScheduleRef.parse(schedule), reason=reason)
    return Response(status_code=HTTPStatus.NO_CONTENT)
