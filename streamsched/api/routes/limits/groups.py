"""Named groups: their limits and the runs that hold their slots."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, GroupsDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, VIEW_ALL
from streamsched.domain.constraints.group import check_group_name
from streamsched.store.limits.groups import GroupRecord
from streamsched.wire.limits import GROUP, GROUP_LIMIT

routes = Routes("/v1/groups", "limits")


@routes.get("", "List groups", may=VIEW_ALL, answers=GROUP.page("groups"))
async def list_groups(groups: GroupsDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name: the groups that a job has used or whose limit was set."""
    found = await groups.all(after=after, limit=limit + 1)
    return json_response(page("groups", found, limit, _view, lambda group: group.name))


@routes.put("/{name}", "Set the limit of a group", may=ADMINISTER_ALL, body=GROUP_LIMIT.body, answers=GROUP.answer)
async def set_limit(name: str, body: BodyObject, groups: GroupsDep, clock: ClockDep) -> Response:
    """Sets `limit`, the number of slots. 0 closes the group; null restores the limit of the schedules. Active runs
    continue. `reason` (optional) is stored in the history.
    """
    check_group_name(name, "$")
    wanted = GROUP_LIMIT.read(body)
    return json_response(_view(await groups.set_limit(name, wanted.limit, wanted.reason, now=clock.now())))


def _view(group: GroupRecord) -> dict[str, Any]:
    return GROUP.answer_of(group, group.occupancy)
