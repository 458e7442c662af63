"""Quotas: limits that an admin of the installation sets on a namespace, with what is in use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, NamespaceDep, QuotasDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.preconditions import ExpectedDep, answer_stored
from streamsched.api.rendering import json_response
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, VIEW, VIEW_ALL
from streamsched.domain.errors import DecodeError
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import QuotaUse, check_limit
from streamsched.wire.quotas import NAMESPACE_QUOTAS, NEW_QUOTA, QUOTA

routes = Routes("/v1", "limits")


async def named_quota(quota: str) -> Quota:
    """The quota of the path.

    Raises:
        DecodeError: there is none of this name.
    """
    if quota not in set(Quota):
        raise DecodeError("quota", f"must be one of {', '.join(Quota)} but is {quota}")
    return Quota(quota)


QuotaDep = Annotated[Quota, Depends(named_quota)]


@routes.get(
    "/quotas",
    "List the quotas of all namespaces",
    may=VIEW_ALL,
    answers=NAMESPACE_QUOTAS.page("namespaces", "QuotaPage"),
)
async def list_quotas(quotas: QuotasDep, clock: ClockDep, after: After = "", limit: Limit = 100) -> Response:
    """A page of the namespaces that have a quota, ordered by name."""
    found = await quotas.list_all(now=clock.now(), after=after, limit=limit + 1)
    namespaces = [(name, list(own)) for name, own in groupby(found, key=lambda use: use.namespace)]
    return json_response(page("namespaces", namespaces, limit, lambda each: _views(*each), lambda each: each[0]))


@routes.get(
    "/namespaces/{namespace}/quotas", "List the quotas of a namespace", may=VIEW, answers=NAMESPACE_QUOTAS.answer
)
async def get_quotas(namespace: NamespaceDep, quotas: QuotasDep, clock: ClockDep) -> Response:
    """The quotas that are set, with what is in use. `used` of `events_per_second` is what was accepted lately; null of
    `body_bytes`, which is of one request, and of `log_bytes`, which each host knows of itself. `ratio` is the part in
    use.
    """
    return json_response(_views(namespace, await quotas.list_of(namespace, now=clock.now())))


@routes.put(
    "/namespaces/{namespace}/quotas/{quota}",
    "Set a quota of a namespace",
    may=ADMINISTER_ALL,
    body=NEW_QUOTA.body,
    answers=QUOTA.answer,
)
async def set_quota(
    namespace: NamespaceDep,
    quota: QuotaDep,
    body: BodyObject,
    quotas: QuotasDep,
    clock: ClockDep,
    *,
    expected: ExpectedDep,
) -> Response:
    """Sets the quota to `limit`; it holds on all processes of the API after a second. What exists stays, also when it
    is more. `reason` (optional) is stored in the history.

    `schedules`: schedules that exist. `accumulations`: accumulations that its schedules may have open. `runs`: runs
    that have not ended; jobs over it wait. `events_per_second`: events over HTTP, of which 10 seconds may be saved up;
    429 over it. `body_bytes`: the body of a request, except bundles and imports; 413 over it. `shared_names`: names of
    groups and pools that it owns; 10,000 without a quota. `webhooks`: 20 without a quota. `log_bytes`: logs of runs on
    the disk of each launcher's host; those of the runs that ended first are emptied.
    """
    wanted = NEW_QUOTA.read(body)
    check_limit(quota, wanted.limit, "$.limit")
    found = await quotas.set(namespace, quota, wanted.limit, wanted.reason, now=clock.now(), expected=expected)
    return answer_stored(_view(found), found.revision)


@routes.delete(
    "/namespaces/{namespace}/quotas/{quota}", "Remove a quota of a namespace", may=ADMINISTER_ALL, answers=QUOTA.answer
)
async def unset_quota(
    namespace: NamespaceDep,
    quota: QuotaDep,
    quotas: QuotasDep,
    clock: ClockDep,
    *,
    expected: ExpectedDep,
    reason: Annotated[str, Query(max_length=1000, description="Stored in the history.")] = "",
) -> Response:
    """Removes the quota and returns what it was. Jobs that wait for it start."""
    return json_response(_view(await quotas.unset(namespace, quota, reason, now=clock.now(), expected=expected)))


def _view(use: QuotaUse) -> dict[str, Any]:
    used = None if use.used is None else round(use.used, 3)
    return QUOTA.answer_of(use, used=used, ratio=None if use.ratio is None else round(use.ratio, 4))


def _views(namespace: str, uses: Sequence[QuotaUse]) -> dict[str, Any]:
    return {"namespace": namespace, "quotas": [_view(use) for use in uses]}
