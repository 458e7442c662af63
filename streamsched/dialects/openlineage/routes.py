"""`POST /api/v1/lineage`: OpenLineage's run events, as the listener of Spark and other integrations send them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyBytes, decode_body
from streamsched.api.bounds.request_limits import LISTS
from streamsched.api.deps import ServicesDep, dialect_service
from streamsched.api.rendering import json_response
from streamsched.api.routing.dialect import HttpDialect
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import EMIT_ASKED
from streamsched.dialects.openlineage import schemas
from streamsched.dialects.openlineage.codec.facts import SOURCE, LineageFacts, facts
from streamsched.dialects.openlineage.codec.run_event import decode
from streamsched.dialects.openlineage.settings import LineageSettings
from streamsched.dialects.openlineage.store.lineage_ends import LineageEnds
from streamsched.domain.access.announcement import may_announce
from streamsched.domain.access.grant import Caller, Denied
from streamsched.domain.datasets.bookmark import watch_bookmark
from streamsched.domain.errors import DecodeError, ForbiddenError
from streamsched.domain.events.event import Event, ProgramReached
from streamsched.domain.names import DEFAULT_NAMESPACE, DatasetRef

routes = Routes("/api/v1", "OpenLineage", HttpDialect(name="openlineage"))

EndsDep = Annotated[LineageEnds, dialect_service("openlineage")]
NamespaceQuery = Annotated[
    str, Query(max_length=255, description="Namespace of the programs and of datasets that are not known by location.")
]


@routes.post(
    "/lineage",
    "Accept a run event (OpenLineage)",
    may=EMIT_ASKED,
    body=schemas.RUN_EVENT,
    answers={201: schemas.ACCEPTED},
    rated=True,
    limit=LISTS,
)
async def accept(
    request: Request,
    body: BodyBytes,
    caller: CallerDep,
    services: ServicesDep,
    ends: EndsDep,
    *,
    namespace: NamespaceQuery = DEFAULT_NAMESPACE,
) -> Response:
    """Accepts one run event and responds 201 when the log has acknowledged what it becomes: the status of the job as a
    program, and with `COMPLETE` one commit of each output. A repeated run event has no effect. Of several ends of a run
    that contradict each other, the first counts.

    `ids`: of the events. `cued`: datasets that a watcher watches; it is given a cue to read the new commits of the
    table, and the run event is no commit itself. `ignored`: what became no event, with the reason. 403 when the
    caller may announce nothing of it. 429 when a namespace has sent as many events as its quota allows.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not supported")
    try:
        run = await decode_body(body, decode)
    except DecodeError:
        services.metrics.add("events_rejected_total", dialect=SOURCE)
        raise
    if run is None:
        return json_response({"ids": [], "cued": [], "ignored": []}, status=HTTPStatus.CREATED)
    known = services.settings.group(LineageSettings).datasets
    found, denied = _split_permitted(caller, facts(run, namespace=namespace, known=known))
    await services.intake.admit((event.fact for event in _of(found, without=())), body=len(body))
    found, contradicted = await _first_end(ends, services.clock.now(), found)
    watched = {watch_bookmark(each.dataset): each.dataset for each in found.datasets}
    cued = [watched[name] for name in await services.datasets.bookmarks.cue(sorted(watched))] if watched else []
    events = [*_of(found, without=cued)]
    if events:
        await services.intake.append(events, dialect=SOURCE)
    ignored = [{"output": each.location, "reason": each.reason} for each in found.ignored]
    answer = {
        "ids": [event.id for event in events],
        "cued": [str(each) for each in cued],
        "ignored": ignored + denied + contradicted,
    }
    return json_response(answer, status=HTTPStatus.CREATED)


async def _first_end(
    ends: LineageEnds, now: datetime, found: LineageFacts
) -> tuple[LineageFacts, list[dict[str, str]]]:
    """Without the end of a run that ended otherwise before, and why."""
    fact = None if found.program is None else found.program.fact
    if not isinstance(fact, ProgramReached) or fact.ended_at is None:
        return found, []
    first = await ends.end(fact.program, fact.run_id, fact.outcome, now)
    if first is fact.outcome:
        return found, []
    reason = f"run {fact.run_id} has {first} already; it cannot be {fact.outcome} as well"
    return found._replace(program=None), [{"output": str(fact.program), "reason": reason}]


def _of(found: LineageFacts, *, without: Iterable[DatasetRef]) -> Iterable[Event]:
    cued = frozenset(without)
    yield from (each.event for each in found.datasets if each.dataset not in cued)
    if found.program is not None:  # after the commits of the same run
        yield found.program


def _split_permitted(caller: Caller, found: LineageFacts) -> tuple[LineageFacts, list[dict[str, str]]]:
    """What the caller may announce, and what it may not, with the reason.

    Raises:
        ForbiddenError: it may announce nothing of it.
    """
    denied: list[dict[str, str]] = []

    def may(event: Event) -> bool:
        verdict = may_announce(caller, event.fact)
        if isinstance(verdict, Denied):
            denied.append({"output": event.key, "reason": verdict.reason})
            return False
        return True

    datasets = tuple(each for each in found.datasets if may(each.event))
    program = found.program if found.program is not None and may(found.program) else None
    if denied and program is None and not datasets:
        raise ForbiddenError(denied[0]["reason"])
    return LineageFacts(program, datasets, found.ignored), denied
