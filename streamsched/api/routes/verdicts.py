"""`GET /v1/events/{id}/verdicts`: what the schedules made of an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from starlette.responses import Response

from streamsched.api.deps import ServicesDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW_ALL
from streamsched.catalog.event_report import EventReport, event_report
from streamsched.codec.records.findings import REASON, reason_to_json
from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.signals.finding import FindingReason
from streamsched.domain.signals.verdict import Verdict
from streamsched.store.events.event_traces import ConsumingJob

routes = Routes("/v1/events", "events")


_JOB: Final = JsonShape(
    ConsumingJob, outside=("run_state",), about={"job": About("default.flights.weekly.1.1", name="id")}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictState:
    """A verdict. `job`: what consumed the event; without one `progress` is that of the schedule."""

    at: Annotated[datetime, About(of="finding.at")]
    source: Annotated[str, About("feeds", of="finding.source")]
    verdict: Annotated[Verdict, About(of="finding.verdict")]
    text: Annotated[str, About("was used by job default.flights.weekly.1.1")]
    then: Sequence[str]
    reason: Annotated[
        FindingReason, About(of="finding.reason", spread=True, shape=ByHand(keep_json, reason_to_json, REASON))
    ]
    since: Annotated[datetime | None, About(of="finding.since")] = None
    job: Annotated[
        ConsumingJob | None,
        About(
            shape=JsonShape(
                ConsumingJob, outside=("run_state",), about={"job": About("default.flights.weekly.1.1", name="id")}
            )
        ),
    ] = None
    progress: Annotated[Mapping[str, Any] | None, About(schema={"type": "object"})] = None


REPORT: Final = JsonShape(
    EventReport,
    about={
        "event": About("e1"),
        "summary": About("1 schedule used it."),
        "lines": About(name="verdicts", shape=JsonShape(VerdictState, sometimes=("since", "job", "progress"))),
        "behind": About(0, "Turns whose verdicts are not stored yet."),
    },
)


@routes.get("/{event:path}/verdicts", "Get the verdicts of an event", may=VIEW_ALL, answers=REPORT.answer)
async def get_verdicts(
    event: str,
    services: ServicesDep,
    source: Annotated[str | None, Query(description="Only events of this source. Default: any source.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most verdicts in the response.")] = 100,
) -> Response:
    """The verdict of each schedule that listens to the event, oldest first, with the job that consumed it. An unknown
    event is not an error: `verdicts` is empty, and `summary` and `hints` give possible causes.
    """
    trace = await services.events.traces.follow(event, source=source, limit=limit)
    return json_response(REPORT.write(event_report(trace, keep=services.settings.keep.verdicts)))
