"""The next ticks of all schedules, of one schedule, and of a trigger that is not deployed."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import AppQuery, CatalogDep, ClockDep, NamespaceQuery
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ANYBODY, VIEW, VIEW_LIST
from streamsched.catalog.change import time_leaves
from streamsched.catalog.upcoming_ticks import soonest_ticks
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.names import AppRef, ScheduleRef
from streamsched.domain.ticks.forecast import forecast
from streamsched.domain.time.duration import duration_text
from streamsched.domain.triggers.time_leaf import SinceLastRun
from streamsched.domain.triggers.trigger import Trigger, leaf_id
from streamsched.domain.triggers.trigger import leaves as all_leaves
from streamsched.wire.ticks import (
    FORECAST,
    SCHEDULE_FORECAST,
    TICK,
    TICKS,
    LeafForecast,
    SinceLastRunState,
    TriggerForecast,
)

routes = Routes("", "schedules")

Count = Annotated[int, Query(ge=1, le=1000, description="Number of ticks of each time trigger.")]


@routes.get("/v1/ticks", "List the next ticks of all schedules", may=VIEW_LIST, answers=TICKS)
async def coming_ticks(
    catalog: CatalogDep,
    clock: ClockDep,
    *,
    namespace: NamespaceQuery = None,
    app: AppQuery = None,
    until: Annotated[datetime | None, Query(description="Omit ticks after this instant.")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Number of ticks.")] = 50,
) -> Response:
    """The next ticks of all schedules that count ticks (enabled, or paused in mode `keep` or `backlog`), soonest first.
    A tick that is one part of a composite trigger does not start the program by itself.
    """
    owner = None if app is None else AppRef.parse(app)
    records = await catalog.reader.list_ticking(limit=limit, namespace=namespace, app=owner)
    found = await asyncio.to_thread(soonest_ticks, records, clock.now(), limit=limit, until=until)
    return json_response({"ticks": [TICK.write(each) for each in found]})


@routes.get(
    "/v1/schedules/{schedule}/next", "List the next ticks of a schedule", may=VIEW, answers=SCHEDULE_FORECAST.answer
)
async def next_ticks(schedule: str, catalog: CatalogDep, clock: ClockDep, count: Count = 10) -> Response:
    """The next ticks of each time trigger of the schedule, whether it is enabled or not. `notes` and `omitted` explain
    ticks that daylight saving or a calendar changes. A tick that is one part of a composite trigger does not start the
    program by itself. `sinceLastRun` has each `since_last_run` of the trigger: `at` is when it will hold at the
    earliest; null while a job waits or a run is active (it holds `after` the end), or the schedule counts no ticks.
    """
    status = await catalog.reader.schedule(ScheduleRef.parse(schedule))
    record = status.record
    ref, trigger = record.definition.ref, record.definition.trigger
    leaves = _forecasts(trigger, clock.now(), count, created_at=record.created_at, schedule=ref)
    since = [
        SinceLastRunState(
            leaf=leaf_id(leaf),
            when=str(leaf),
            after=duration_text(leaf.duration),
            at=status.since_last_run.get(leaf_id(leaf)),
            active=leaf_id(leaf) in status.since_last_run and status.since_last_run[leaf_id(leaf)] is None,
        )
        for leaf in dict.fromkeys(all_leaves(trigger))
        if isinstance(leaf, SinceLastRun)
    ]
    return json_response(SCHEDULE_FORECAST.answer_of(record, leaves=leaves, since_last_run=since))


@routes.post(
    "/v1/triggers/next", "List the next ticks of a trigger", may=ANYBODY, body="Trigger", answers=FORECAST.answer
)
async def next_ticks_of(body: BodyObject, clock: ClockDep, count: Count = 10) -> Response:
    """The next ticks of the time triggers in the body, as if it were deployed now. The body is the `trigger` of a
    schedule's definition.
    """
    now = clock.now()
    leaves = _forecasts(trigger_codec.from_json(body), now, count, created_at=now)
    return json_response(FORECAST.write(TriggerForecast(leaves=leaves)))


def _forecasts(
    trigger: Trigger, now: datetime, count: int, *, created_at: datetime, schedule: ScheduleRef | None = None
) -> list[LeafForecast]:
    return [
        LeafForecast(
            leaf=name, when=str(leaf), forecast=forecast(leaf, now, count, created_at=created_at, schedule=schedule)
        )
        for name, leaf in time_leaves(trigger).items()
    ]
