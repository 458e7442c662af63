"""CDAP's way back after an upgrade that disabled schedules: it enables those that were disabled in a span of time."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Final

from starlette.responses import Response

from streamsched.api.deps import CatalogDep
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import OPERATE
from streamsched.api.streams.long_lists import parts_of
from streamsched.dialects.cdap.codec.schedule import millis
from streamsched.dialects.cdap.dialect import CDAP
from streamsched.domain.names import AppRef, ScheduleRef

routes = Routes("/v3/namespaces/{namespace}", "CDAP", CDAP)

_STATES: Final = ("disabled", "paused")
_Start = Annotated[int, Query(alias="start-time-millis", description="Start of the span, in milliseconds since 1970.")]
_End = Annotated[int, Query(alias="end-time-millis", description="End of the span, which is not part of it.")]


@routes.put("/schedules/re-enable", "Enable schedules that were disabled in a span", may=OPERATE, answers="")
async def re_enable(namespace: str, catalog: CatalogDep, start: _Start, end: _End) -> Response:
    """Enables each suspended schedule of the namespace of which the `lastUpdateTime` is in the span, whatever changed
    it then: one that was only created then is enabled too, as in CDAP. Those of an app are one change.
    """
    found: defaultdict[AppRef, list[ScheduleRef]] = defaultdict(list)
    async for part in parts_of(
        lambda after, limit: catalog.reader.schedules(namespace=namespace, states=_STATES, after=after, limit=limit),
        lambda each: str(each.record.definition.ref),
    ):
        for each in part:
            if start <= millis(each.record.updated_at) < end:
                found[each.record.definition.ref.owner].append(each.record.definition.ref)
    for app, refs in found.items():
        await catalog.enable_some(app, refs, reason="re-enabled").apply()
    return Response()
