"""`GET /v1/events/{id}/verdicts`: what became of an event."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.deps import ServicesDep
from streamsched.api.rendering import rendered
from streamsched.catalog.account import Account, Line, account
from streamsched.codec.findings import ground_to_json
from streamsched.ports.verdicts import Total

router = APIRouter(prefix="/v1/events")


@router.get("/{event:path}/verdicts")
async def get_verdicts(
    event: str,
    services: ServicesDep,
    source: Annotated[str | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Oldest first, of any source when none is named. An event that was never seen has none, and is no error: `summary`
    and `hints` say what that may mean.
    """
    trail = await services.trails.follow(event, source=source, limit=limit)
    return rendered(account_view(account(trail, keep=services.verdicts_keep)))


def account_view(told: Account) -> dict[str, Any]:
    """An account as JSON."""
    return {
        "event": told.event,
        "summary": told.summary,
        "verdicts": [_line_view(line) for line in told.lines],
        "hints": list(told.hints),
        "behind": told.behind,
    }


def _line_view(line: Line) -> dict[str, Any]:
    finding, taker, standing = line.finding, line.taker, line.standing
    view: dict[str, Any] = {
        "at": finding.at,
        "source": finding.source,
        "verdict": finding.verdict,
        "text": line.text,
        "then": list(line.then),
        **ground_to_json(finding.ground),
    }
    if finding.since is not None:
        view["since"] = finding.since
    if taker is not None:
        view["job"] = {
            "id": taker.job,
            "state": taker.state,
            "reason": taker.reason,
            "joined": taker.joined,
            "runs": list(taker.runs),
        }
    elif standing is not None and standing.progress is not None:
        view["progress"] = standing.progress
    return view


def total_view(total: Total) -> dict[str, Any]:
    """How often a verdict was given, as JSON."""
    return {"verdict": total.verdict, "late": total.late, "total": total.total, "lastAt": total.last_at}
