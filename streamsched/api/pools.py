"""Pools: who has their places, how many there are, and in what order waiting jobs get them."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, PoolsDep
from streamsched.api.rendering import rendered
from streamsched.api.views import pool_view
from streamsched.codec.reading import Fields
from streamsched.domain.duration import parse_duration
from streamsched.domain.errors import DecodeError
from streamsched.domain.group import check_group_name
from streamsched.domain.names import ScheduleRef
from streamsched.domain.pool import check_priority

router = APIRouter(prefix="/v1")


@router.get("/pools")
async def list_pools(pools: PoolsDep) -> Response:
    """Ordered by name; those a job asked for, or that somebody set."""
    return rendered({"pools": [pool_view(pool) for pool in await pools.all()]})


@router.put("/pools/{name}")
async def set_pool(name: str, body: BodyObject, pools: PoolsDep, clock: ClockDep) -> Response:
    """Sets the `size` from here on (0 shuts the pool, null leaves it to the schedules again) and, as a duration, what a
    point of priority is worth (`age`; left out: as it was). Running runs go on. `reason` (optional): who wants it and
    why, for the history.
    """
    check_group_name(name, "$")
    fields = Fields(body)
    size = fields.nullable_integer("size", minimum=0)
    written = fields.optional_text("age")
    age = None if written is None else parse_duration(written, "$.age")
    if age is not None and not timedelta(0) <= age <= timedelta(days=1):
        raise DecodeError("$.age", f"must be from 0s to 1d but is {written}")
    reason = fields.optional_text("reason") or ""
    fields.done()
    return rendered(pool_view(await pools.set(name, size, age, reason, now=clock.now())))


@router.put("/schedules/{name}/priority")
async def set_priority(name: str, body: BodyObject, pools: PoolsDep, clock: ClockDep) -> Response:
    """Sets a schedule's `priority` in its pool from here on; null: its own again. Its waiting jobs move in the line."""
    schedule = ScheduleRef.parse(name)
    fields = Fields(body)
    priority = fields.nullable_integer("priority")
    if priority is not None:
        check_priority(priority, "$.priority")
    reason = fields.optional_text("reason") or ""
    fields.done()
    pool = await pools.prioritize(schedule, priority, reason, now=clock.now())
    return rendered({"id": str(schedule), "pool": pool, "priority": priority})
