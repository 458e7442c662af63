"""`GET /v1/events/{id}/verdicts`: what the schedules made of an event."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.responses import Response

from streamsched.api.deps import ServicesDep
from streamsched.api.rendering import rendered
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW_ALL
from streamsched.catalog.event_report import EventReport, ReportLine, event_report
from streamsched.codec.records.findings import reason_to_json

routes = Routes("/v1/events", "events")


@routes.get("/{event:path}/verdicts", "Get the verdicts of an event", may=VIEW_ALL, answers="EventReport")
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
    return rendered(report_view(event_report(trace, keep=services.settings.keep.verdicts)))


def report_view(report: EventReport) -> dict[str, Any]:
    """The report of an event."""
    return {
        "event": report.event,
        "summary": report.summary,
        "verdicts": [_line_view(line) for line in report.lines],
        "hints": list(report.hints),
        "behind": report.behind,
    }


def _line_view(line: ReportLine) -> dict[str, Any]:
    finding, job, schedule = line.finding, line.job, line.schedule
    view: dict[str, Any] = {
        "at": finding.at,
        "source": finding.source,
        "verdict": finding.verdict,
        "text": line.text,
        "then": list(line.then),
        **reason_to_json(finding.reason),
    }
    if finding.since is not None:
        view["since"] = finding.since
    if job is not None:
        view["job"] = {
            "id": job.job,
            "state": job.state,
            "reason": job.reason,
            "joined": job.joined,
            "runs": list(job.runs),
        }
    elif schedule is not None and schedule.progress is not None:
        view["progress"] = schedule.progress
    return view
