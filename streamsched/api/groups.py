"""Named groups: who holds their slots, and how many there are."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, GroupsDep
from streamsched.api.rendering import rendered
from streamsched.api.views import group_view
from streamsched.codec.reading import Fields
from streamsched.domain.group import check_group_name

router = APIRouter(prefix="/v1/groups")


@router.get("")
async def list_groups(groups: GroupsDep) -> Response:
    """Ordered by name; those a job asked for, or whose limit was set."""
    return rendered({"groups": [group_view(group) for group in await groups.all()]})


@router.put("/{name}")
async def set_limit(name: str, body: BodyObject, groups: GroupsDep, clock: ClockDep) -> Response:
    """Sets the `limit` from here on: 0 shuts the group, null leaves it to the schedules again. Running runs go on.
    `reason` (optional): who wants it and why, for the history.
    """
    check_group_name(name, "$")
    fields = Fields(body)
    limit = fields.nullable_integer("limit", minimum=0)
    reason = fields.optional_text("reason") or ""
    fields.done()
    return rendered(group_view(await groups.set_limit(name, limit, reason, now=clock.now())))
