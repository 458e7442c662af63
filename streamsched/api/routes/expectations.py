"""Expectations: what must be there by which time, whether it is, and what was missing."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.responses import Response

from streamsched.api.deps import AppQuery, ExpectationsDep, NamespaceQuery
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import rendered
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW, VIEW_LIST
from streamsched.codec.schedules.expectation import expectation_to_json
from streamsched.domain.names import AppRef, ExpectationRef
from streamsched.domain.time.duration import duration_text
from streamsched.store.expectations.records import ExpectationRecord, StoredMiss

routes = Routes("/v1/expectations", "expectations")

#: Misses in the answer about one expectation.
_MISSES = 100


@routes.get("", "List expectations", may=VIEW_LIST, answers="ExpectationPage")
async def list_expectations(
    expectations: ExpectationsDep,
    *,
    namespace: NamespaceQuery = None,
    app: AppQuery = None,
    missing: Annotated[bool, Query(description="Only those of which something is missing and may still come.")] = False,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page of the expectations of all apps, ordered by id. `state`: `met`, `missing`, `learning` (due at its usual
    time, which is not known yet) or `stopped` (with `stopped`, why).
    """
    owner = None if app is None else AppRef.parse(app)
    found = await expectations.page(namespace=namespace, app=owner, missing=missing, after=after, limit=limit + 1)
    return rendered(page("expectations", found, limit, expectation_view, lambda each: str(each.expectation.ref)))


@routes.get("/{expectation}", "Get an expectation", may=VIEW, answers="ExplainedExpectation")
async def get_expectation(expectation: str, expectations: ExpectationsDep) -> Response:
    """The expectation `namespace.app.name` with its newest 100 misses, newest first. Of a miss, `announced` is false
    when a later due time had passed too before it was judged; `open` when what is missing may still come.
    """
    ref = ExpectationRef.parse(expectation)
    record = await expectations.get(ref)
    misses = await expectations.misses(ref, limit=_MISSES)
    return rendered({**expectation_view(record), "misses": [miss_view(each) for each in misses]})


def expectation_view(record: ExpectationRecord) -> dict[str, Any]:
    """An expectation with what is known of it."""
    watched, due = record.watched, record.watched.due
    awaited, usual = watched.expected_next, watched.usual_delay
    return {
        "id": str(record.expectation.ref),
        "state": record.state,
        "when": record.expectation.due_text,
        "definition": expectation_to_json(record.expectation),
        "dueAt": None if due is None else due.at,
        "key": None if awaited is None else awaited.key or None,
        "usual": None if usual is None else usual_text(record),
        "seenAt": record.seen_at,
        "openMisses": record.open_misses,
        "lastMiss": None if record.last_miss is None else miss_view(record.last_miss),
        "stopped": record.stopped or None,
        "createdAt": record.created_at,
        "changedAt": record.changed_at,
    }


def usual_text(record: ExpectationRecord) -> str:
    """By when it usually is there, from the start of its period; "" when that is not known."""
    usual = record.watched.usual_delay
    if usual is None:
        return ""
    side = "before" if usual.total_seconds() < 0 else "after"
    return f"{duration_text(abs(usual))} {side} the {record.expectation.every} begins"


def miss_view(miss: StoredMiss) -> dict[str, Any]:
    """A due time at which something was not there."""
    late = None if miss.came_at is None else max(0.0, (miss.came_at - miss.due_at).total_seconds())
    return {
        "dueAt": miss.due_at,
        "key": miss.key or None,
        "reason": miss.reason,
        "foundAt": miss.found_at,
        "announced": miss.announced,
        "open": miss.open,
        "cameAt": miss.came_at,
        "lateSeconds": late,
    }
