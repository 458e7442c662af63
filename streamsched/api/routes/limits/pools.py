"""Pools: their sizes, the runs that hold their slots, and the priorities of their queues."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, PoolsDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.preconditions import ExpectedDep, TaggedDep, answer_stored
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, OPERATE, VIEW_ALL
from streamsched.domain.constraints.group import check_group_name
from streamsched.domain.constraints.pool import check_priority
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import ScheduleRef
from streamsched.store.limits.pools import PoolRecord
from streamsched.wire.limits import NEW_PRIORITY, POOL, POOL_SIZE, PRIORITY

routes = Routes("/v1", "limits")


@routes.get("/pools", "List pools", may=VIEW_ALL, answers=POOL.page("pools"))
async def list_pools(pools: PoolsDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name: the pools that a job has used or whose size was set."""
    found = await pools.all(after=after, limit=limit + 1)
    return json_response(page("pools", found, limit, _view, lambda pool: pool.name))


@routes.get("/pools/{name}", "Get a pool", may=VIEW_ALL, answers=POOL.answer)
async def get_pool(name: str, pools: PoolsDep, tagged: TaggedDep) -> Response:
    """A pool that a job has used or whose size was set. The entity tag's revision is of its size and age."""
    check_group_name(name, "$")
    found = await pools.get(name)
    return tagged(_view(found), found.revision)


@routes.put("/pools/{name}", "Set the size of a pool", may=ADMINISTER_ALL, body=POOL_SIZE.body, answers=POOL.answer)
async def set_pool(name: str, body: BodyObject, pools: PoolsDep, clock: ClockDep, expected: ExpectedDep) -> Response:
    """Sets `size`, the number of slots (0 closes the pool, null restores the size of the schedules), and `age`, the
    waiting time that one point of priority is worth, a duration from 0s to 1d; without `age` it does not change. Active
    runs continue. `reason` (optional) is stored in the history.
    """
    check_group_name(name, "$")
    wanted = POOL_SIZE.read(body)
    if wanted.age is not None and not timedelta(0) <= wanted.age <= timedelta(days=1):
        raise DecodeError("$.age", f"must be from 0s to 1d but is {body['age']}")
    found = await pools.set(name, wanted.size, wanted.age, wanted.reason, now=clock.now(), expected=expected)
    return answer_stored(_view(found), found.revision)


@routes.put(
    "/schedules/{name}/priority",
    "Set the priority of a schedule",
    may=OPERATE,
    body=NEW_PRIORITY.body,
    answers=PRIORITY.answer,
    conflict=True,
)
async def set_priority(name: str, body: BodyObject, pools: PoolsDep, clock: ClockDep) -> Response:
    """Sets the schedule's `priority` in its pool, -1000 to 1000, and reorders its waiting jobs. null restores the
    priority of the definition. `reason` (optional) is stored in the history.
    """
    schedule = ScheduleRef.parse(name)
    wanted = NEW_PRIORITY.read(body)
    if wanted.priority is not None:
        check_priority(wanted.priority, "$.priority")
    pool = await pools.prioritize(schedule, wanted.priority, wanted.reason, now=clock.now())
    return json_response(PRIORITY.answer_of(wanted, schedule=schedule, pool=pool))


def _view(pool: PoolRecord) -> dict[str, Any]:
    places = pool.places
    runs = [slot.run for slot in places.slots]
    return POOL.answer_of(pool, places, size=places.limit, runs=runs, schedules=pool.members)
