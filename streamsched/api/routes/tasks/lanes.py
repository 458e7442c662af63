"""Lanes of queues: their heads, and why they wait."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from streamsched.api.deps import ClockDep, TasksDep
from streamsched.api.rendering import json_response
from streamsched.api.routes.tasks.views import LANE
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW_ALL

routes = Routes("/v1/queues", "tasks")


@routes.get("/{queue}/lane", "Explain a lane", may=VIEW_ALL, answers=LANE.answer)
async def get_lane(
    queue: str,
    tasks: TasksDep,
    clock: ClockDep,
    *,
    name: Annotated[str, Query(max_length=600, description="Name of the lane.")],
) -> Response:
    """The task that is in flight in the lane or is its head, how many tasks it has (up to 10000), and why it waits."""
    return json_response(LANE.write(await tasks.lane(queue, name, now=clock.now())))
