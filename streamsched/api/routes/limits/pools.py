"""Pools: their sizes, the runs that hold their slots, and the priorities of their queues."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, PoolsDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.preconditions import ExpectedDep, TaggedDep, stored
from streamsched.api.rendering import rendered
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, OPERATE, VIEW_ALL
from streamsched.api.views import pool_view
from streamsched.codec.json.reading import Fields
from streamsched.domain.constraints.group import check_group_name
from streamsched.domain.constraints.pool import check_priority
from streamsched.domain.errors import DecodeError
from streamsched.domain.limits import MOST_SLOTS, check_count
from streamsched.domain.names import ScheduleRef
from streamsched.domain.time.duration import parse_duration

routes = Routes("/v1", "limits")


@routes.get("/pools", "List pools", may=VIEW_ALL, answers="PoolPage")
async def list_pools(pools: PoolsDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name: the pools that a job has used or whose size was set."""
    found = await pools.all(after=after, limit=limit + 1)
    return rendered(page("pools", found, limit, pool_view, lambda pool: pool.name))


@routes.get("/pools/{name}", "Get a pool", may=VIEW_ALL, answers="Pool")
async def get_pool(name: str, pools: PoolsDep, tagged: TaggedDep) -> Response:
    """A pool that a job has used or whose size was set. The entity tag's revision is of its size and age."""
    check_group_name(name, "$")
    found = await pools.get(name)
    return tagged(pool_view(found), found.revision)


@routes.put("/pools/{name}", "Set the size of a pool", may=ADMINISTER_ALL, body="PoolSize", answers="Pool")
async def set_pool(name: str, body: BodyObject, pools: PoolsDep, clock: ClockDep, expected: ExpectedDep) -> Response:
    """Sets `size`, the number of slots (0 closes the pool, null restores the size of the schedules), and `age`, the
    waiting time that one point of priority is worth, a duration from 0s to 1d; without `age` it does not change. Active
    runs continue. `reason` (optional) is stored in the history.
    """
    check_group_name(name, "$")
    fields = Fields(body)
    size = fields.nullable_integer("size", minimum=0)
    if size is not None:
        check_count(size, "$.size", least=0, most=MOST_SLOTS)
    text = fields.optional_text("age")
    age = None if text is None else parse_duration(text, "$.age")
    if age is not None and not timedelta(0) <= age <= timedelta(days=1):
        raise DecodeError("$.age", f"must be from 0s to 1d but is {text}")
    reason = fields.optional_text("reason") or ""
    fields.check_all_read()
    found = await pools.set(name, size, age, reason, now=clock.now(), expected=expected)
    return stored(pool_view(found), found.revision)


@routes.put(
    "/schedules/{name}/priority",
    "Set the priority of a schedule",
    may=OPERATE,
    body="NewPriority",
    answers="Priority",
    conflict=True,
)
async def set_priority(name: str, body: BodyObject, pools: PoolsDep, clock: ClockDep) -> Response:
    """Sets the schedule's `priority` in its pool, -1000 to 1000, and reorders its waiting jobs. null restores the
    priority of the definition. `reason` (optional) is stored in the history.
    """
    schedule = ScheduleRef.parse(name)
    fields = Fields(body)
    priority = fields.nullable_integer("priority")
    if priority is not None:
        check_priority(priority, "$.priority")
    reason = fields.optional_text("reason") or ""
    fields.check_all_read()
    pool = await pools.prioritize(schedule, priority, reason, now=clock.now())
    return rendered({"id": str(schedule), "pool": pool, "priority": priority})
