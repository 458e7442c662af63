"""Expectations: what must be there by which time, whether it is, and what was missing."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from streamsched.api.deps import AppQuery, ExpectationsDep, NamespaceQuery
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW, VIEW_LIST
from streamsched.domain.names import AppRef, ExpectationRef
from streamsched.wire.expectations import EXPECTATION, EXPECTATIONS, EXPLAINED_EXPECTATION, MISS

routes = Routes("/v1/expectations", "expectations")

#: Misses in the answer about one expectation.
_MISSES = 100


@routes.get("", "List expectations", may=VIEW_LIST, answers=EXPECTATIONS)
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
    return json_response(page("expectations", found, limit, EXPECTATION.write, lambda each: str(each.expectation.ref)))


@routes.get("/{expectation}", "Get an expectation", may=VIEW, answers=EXPLAINED_EXPECTATION)
async def get_expectation(expectation: str, expectations: ExpectationsDep) -> Response:
    """The expectation `namespace.app.name` with its newest 100 misses, newest first. Of a miss, `announced` is false
    when a later due time had passed too before it was judged; `open` when what is missing may still come.
    """
    ref = ExpectationRef.parse(expectation)
    record = await expectations.get(ref)
    misses = await expectations.misses(ref, limit=_MISSES)
    return json_response({**EXPECTATION.write(record), "misses": [MISS.write(each) for each in misses]})
