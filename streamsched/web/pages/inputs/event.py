"""One event: what it says, and what the schedules made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from streamsched.api.reads.log_tail import TailRecord, log_record
from streamsched.api.reads.logged_events import LoggedEvent, logged_event, newest_events, signalled_event
from streamsched.api.routing.rules import VIEW_ALL
from streamsched.catalog.event_report import ReportLine, event_report
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.signals.finding import AtSchedule
from streamsched.log.topics import JUDGED, PUBLIC, SIGNALS
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line
from streamsched.web.views.facts import fact_words, verdict_word
from streamsched.web.visit import PageRoute, Visit

#: Characters of a payload that are shown.
_SHOWN: Final = 20_000
#: Records of each partition among which an event without a position is searched.
_SEARCHED: Final = 2000
_VERDICTS: Final = 100


class VerdictLine(NamedTuple):
    """A verdict with its schedule, "" when it is of none."""

    line: ReportLine
    word: Any
    schedule: str


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/event", VIEW_ALL, partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """The event as it is in the log, and what each schedule made of it. It is found at its position (`at`), else among
    the newest of each partition; the verdicts are shown also when it is no longer there.
    """
    name, source, at = visit.query("id"), visit.query("source"), visit.query("at")
    if not name:
        raise InvalidError("id", "is missing: name the event, as /ui/event?id=ID")
    logged = await _find_logged(visit, name, source, at)
    trace = await visit.api.events.traces.follow(name, source=source or None, limit=_VERDICTS)
    report = event_report(trace, keep=visit.api.settings.keep.verdicts)
    return renderer.page(
        visit,
        "event.html",
        name=name,
        source=source,
        report=report,
        lines=[
            VerdictLine(
                line,
                verdict_word(line.finding.verdict),
                str(line.finding.reason.schedule) if isinstance(line.finding.reason, AtSchedule) else "",
            )
            for line in report.lines
        ],
        logged=logged,
        words=None if logged is None or logged.fact is None else fact_words(logged.fact),
        payload="" if logged is None else payload_text(logged.raw),
        same=SameAs(command_line("event", "why", name)),
    )


async def _find_logged(visit: Visit, name: str, source: str, at: str) -> LoggedEvent | None:
    """The event in the log, at its position or among the newest; None when it is not there any more."""
    if at:
        try:
            return _read(await log_record(visit.api.events.broker, at, (*PUBLIC, SIGNALS, JUDGED)))
        except NotFoundError:
            return None
    tail = await newest_events(visit.api.events.search, PUBLIC, depth=_SEARCHED, text=name, limit=50)
    found = (each for each in tail.events if each.id == name and source in {"", each.source})
    return next(found, None)


def _read(found: TailRecord) -> LoggedEvent | None:
    return logged_event(found) if found.at.topic in PUBLIC else signalled_event(found)


def payload_text(raw: bytes) -> str:
    """A payload as indented JSON, or as it is; at most `_SHOWN` characters."""
    try:
        text = json.dumps(json.loads(raw), indent=2, ensure_ascii=False)
    except ValueError:
        text = raw.decode(errors="backslashreplace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(raw):,} bytes)"
