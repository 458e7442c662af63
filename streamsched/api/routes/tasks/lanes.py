"""Lanes of queues: their heads, and why they wait."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.deps import ClockDep, TasksDep
from streamsched.api.rendering import rendered
from streamsched.api.routes.tasks.views import lane_view

router = APIRouter(prefix="/v1/queues", tags=["tasks"])


@router.get("/{queue}/lane", summary="Explain a lane")
async def get_lane(
    queue: str,
    tasks: TasksDep,
    clock: ClockDep,
    *,
    name: Annotated[str, Query(max_length=600, description="Name of the lane.")],
) -> Response:
    """The task that is in flight in the lane or is its head, how many tasks it has (up to 10000), and why it waits."""
    return rendered(lane_view(await tasks.lane(queue, name, now=clock.now())))
