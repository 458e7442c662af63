"""What clocks are going to do: the next ticks of a schedule, and of an expression that nobody has deployed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import CatalogDep, ClockDep
from streamsched.api.rendering import rendered
from streamsched.catalog.change import time_leaves
from streamsched.codec import forecast as forecast_codec
from streamsched.codec import trigger as trigger_codec
from streamsched.domain.forecast import forecast
from streamsched.domain.names import ScheduleRef

router = APIRouter()

Count = Annotated[int, Query(ge=1, le=1000)]


@router.get("/v1/schedules/{schedule}/next")
async def next_ticks(schedule: str, catalog: CatalogDep, clock: ClockDep, count: Count = 10) -> Response:
    """The next ticks of each time leaf, enabled or not; odd days are marked. A tick of a leaf that others must join
    starts nothing by itself.
    """
    record = (await catalog.get(ScheduleRef.parse(schedule))).record
    ref, created_at = record.definition.ref, record.created_at
    leaves = [
        {
            "leaf": name,
            "when": str(leaf),
            **forecast_codec.to_json(forecast(leaf, clock.now(), count, created_at=created_at, schedule=ref)),
        }
        for name, leaf in time_leaves(record.definition.trigger).items()
    ]
    return rendered({"schedule": str(ref), "enabled": record.enabled, "leaves": leaves})


@router.post("/v1/triggers/next")
async def next_ticks_of(body: BodyObject, clock: ClockDep, count: Count = 10) -> Response:
    """The same for a trigger as it would be deployed, as if it were now."""
    now = clock.now()
    leaves = [
        {"leaf": name, "when": str(leaf), **forecast_codec.to_json(forecast(leaf, now, count, created_at=now))}
        for name, leaf in time_leaves(trigger_codec.from_json(body)).items()
    ]
    return rendered({"leaves": leaves})
