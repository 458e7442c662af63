"""Named groups: their limits and the runs that hold their slots."""

from __future__ import annotations

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, GroupsDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import rendered
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, VIEW_ALL
from streamsched.api.views import group_view
from streamsched.codec.json.reading import Fields
from streamsched.domain.constraints.group import check_group_name
from streamsched.domain.limits import MOST_SLOTS, check_count

routes = Routes("/v1/groups", "limits")


@routes.get("", "List groups", may=VIEW_ALL, answers="GroupPage")
async def list_groups(groups: GroupsDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name: the groups that a job has used or whose limit was set."""
    found = await groups.all(after=after, limit=limit + 1)
    return rendered(page("groups", found, limit, group_view, lambda group: group.name))


@routes.put("/{name}", "Set the limit of a group", may=ADMINISTER_ALL, body="GroupLimit", answers="Group")
async def set_limit(name: str, body: BodyObject, groups: GroupsDep, clock: ClockDep) -> Response:
    """Sets `limit`, the number of slots. 0 closes the group; null restores the limit of the schedules. Active runs
    continue. `reason` (optional) is stored in the history.
    """
    check_group_name(name, "$")
    fields = Fields(body)
    limit = fields.nullable_integer("limit", minimum=0)
    if limit is not None:
        check_count(limit, "$.limit", least=0, most=MOST_SLOTS)
    reason = fields.optional_text("reason") or ""
    fields.check_all_read()
    return rendered(group_view(await groups.set_limit(name, limit, reason, now=clock.now())))
