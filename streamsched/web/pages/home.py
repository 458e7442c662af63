"""Home: is anything wrong, and what is next?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from starlette.responses import Response

from streamsched.admin.overview import Overview, survey
from streamsched.api.routing.rules import VIEW_LIST
from streamsched.catalog.upcoming_ticks import UpcomingTick, soonest_ticks
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import StreamschedError
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.web.rendering import Renderer
from streamsched.web.views.health import HealthLine, headline, health_lines, records_a_second
from streamsched.web.views.strips import tick_slots, time_line
from streamsched.web.visit import PageRoute, Visit

_ROWS: Final = 8
#: Schedules on the time line, and ticks of each that are computed.
_TICKING: Final = 40
_TICKS: Final = 48
_DAY: Final = timedelta(hours=24)


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/", VIEW_LIST, partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """Counts, what waits longest, what failed last, missed deadlines, and the ticks of the next 24 hours. The health of
    the log is for those who may see all of the installation.
    """
    reads, namespace, now = visit.services.reads, visit.namespace, visit.now
    counts = await reads.counts(namespace=namespace, now=now)
    waiting = await reads.list_oldest_waiting(namespace=namespace, limit=_ROWS)
    failures = await reads.recent_failures(namespace=namespace, limit=_ROWS)
    records = await visit.api.catalog.reader.list_ticking(limit=_TICKING, namespace=namespace)
    ticking = await asyncio.to_thread(_next_day, records, now)
    overview, health = await _overview(visit)
    missed = await visit.api.work.activity.missed_deadlines(namespace=namespace, limit=_ROWS)
    missing = await visit.api.schedules.expectations.page(namespace=namespace, missing=True, limit=_ROWS)
    upcoming = [ticks[0] for ticks in ticking]
    return renderer.page(
        visit,
        "home.html",
        counts=counts,
        waiting=waiting,
        failures=failures,
        headline=headline(
            counts,
            waiting=waiting,
            missed=len(missed),
            missing=len(missing),
            health=health,
            upcoming=[tick for tick in upcoming if tick.schedule.status == "enabled"],
            times=visit.times,
        ),
        ticks=upcoming[:_ROWS],
        more_ticks=len(ticking) > _ROWS,
        all_shown=len(records) < _TICKING,
        time_line=time_line(
            [tick_slots([tick.fires_at for tick in ticks], now, cut=len(ticks) == _TICKS) for ticks in ticking], now
        ),
        missed=missed,
        app_graphs=await visit.graphs(limit=_ROWS + 1),
        most_graphs=_ROWS,
        missing=missing,
        rate=None if overview is None else records_a_second(overview),
        behind=0 if overview is None else sum(shard.total_lag for shard in overview.shards),
        health=health,
    )


def _next_day(records: Sequence[ScheduleRecord], now: datetime) -> list[list[UpcomingTick]]:
    """The ticks of each schedule in the next 24 hours, at most `_TICKS`; the schedule that ticks first is the first."""
    found = [soonest_ticks([record], now, limit=_TICKS, until=now + _DAY) for record in records]
    return sorted((ticks for ticks in found if ticks), key=lambda ticks: ticks[0].fires_at)


async def _overview(visit: Visit) -> tuple[Overview | None, list[HealthLine]]:
    """Nothing for a person who may not see the whole installation."""
    if not visit.may(Permission.VIEW, None):
        return None, []
    at = visit.api.installation
    try:
        overview = await survey(at.broker, at.reports)
    except StreamschedError as error:
        return None, [HealthLine("bad", "log", str(error))]
    return overview, health_lines(overview)
