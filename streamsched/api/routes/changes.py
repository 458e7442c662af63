"""`GET /v1/changes/{change}`: whether the log has acknowledged a stored change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from starlette.responses import Response

from streamsched.api.deps import CatalogDep
from streamsched.api.plan_views import CHANGE, ChangeProgress
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ANYBODY
from streamsched.domain.errors import NotFoundError

routes = Routes("/v1/changes", "apps")

#: First and last id of the outbox records of a change.
_CHANGE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")

Wait = Annotated[float, Query(ge=0, le=30, description="Longest time to wait for the acknowledgement, in seconds.")]


def change_name(outbox: Sequence[int]) -> str:
    """The name of a change from the ids of its outbox records; there must be at least one."""
    return f"{min(outbox)}-{max(outbox)}"


@routes.get("/{change}", "Get the progress of a change", may=ANYBODY, answers=CHANGE.answer)
async def get_change(change: str, catalog: CatalogDep, wait: Wait = 0) -> Response:
    """`{"change", "pending", "acknowledged"}`. `pending` is the number of records that the log has not acknowledged,
    after waiting up to `wait` seconds for zero. The change applies to all events emitted after it is acknowledged.
    """
    found = _CHANGE.fullmatch(change)
    if found is None:
        raise NotFoundError("change", change)
    pending = await catalog.count_pending(int(found[1]), int(found[2]), within=wait)
    return json_response(CHANGE.write(ChangeProgress(change=change, pending=pending, acknowledged=pending == 0)))
