"""Datasets: what came, what waits for it, which periods are missing, and what is expected of it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.dataset_view import (
    DEEPEST,
    DEPTH,
    DatasetView,
    RollUpKey,
    dataset_view,
)
from streamsched.api.deps import NamespaceQuery, ServicesDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW, VIEW_LIST
from streamsched.domain.names import DatasetRef, check_namespace
from streamsched.wire.datasets import AWAITED, DATASET, EXPECTATION, KEY, ROLL_UP, EventSource

routes = Routes("/v1/datasets", "datasets")

#: Sources, and periods of a key, that are named.
_SOURCES: Final = 5
_NAMED: Final = 100

DepthQuery = Annotated[
    int, Query(ge=1, le=DEEPEST, description="Newest records of the dataset's shard that are searched for its commits.")
]
PartitionLimit = Annotated[int, Query(ge=1, le=1000, description="Partitions that are shown.")]


@routes.get("", "List datasets", may=VIEW_LIST, answers=AWAITED.page("datasets", "DatasetPage"))
async def list_datasets(
    services: ServicesDep,
    caller: CallerDep,
    *,
    namespace: NamespaceQuery = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page of the datasets for which schedules wait, ordered by name: how many of those that the caller may view, and
    how many others. What nothing waits for is only in the log (`GET /v1/events`).
    """
    if namespace is not None:
        check_namespace(namespace)
    links = await services.datasets.links.links(caller)
    names = [name for name in links.sources("dataset", namespace) if name > after][: limit + 1]
    listeners, others = links.listeners, links.others

    def view(name: str) -> dict[str, Any]:
        source = ("dataset", name)
        counts = {"schedules": len(listeners.get(source, ())), "other_schedules": others.get(source, 0)}
        return AWAITED.answer_of(id=name, **counts)

    return json_response(page("datasets", names, limit, view, str))


@routes.get("/{namespace}/{dataset}", "Get a dataset", may=VIEW, answers=DATASET.answer, missing=True)
async def get_dataset(
    namespace: str,
    dataset: str,
    services: ServicesDep,
    caller: CallerDep,
    *,
    depth: DepthQuery = DEPTH,
    limit: PartitionLimit = 100,
) -> Response:
    """The newest commits of the dataset, each partition once, with how often it was `rewritten`; the schedules that
    wait for it, of those of other namespaces only how many; of each roll-up and known set the newest open keys with the
    periods and values that are missing, came late or were rewritten; and the expectations about it. `completeness`:
    `incomplete` when an open key misses a part or an expectation is missing, `as expected` otherwise, `no expectation`
    when nothing says what belongs to it, `not known` when more would have to be read. An unknown dataset has none of
    these.
    """
    ref = DatasetRef.parse(f"{namespace}.{dataset}")
    return json_response(_answer(await dataset_view(services, caller, ref, depth=depth), limit))


def _answer(view: DatasetView, limit: int) -> dict[str, Any]:
    return DATASET.answer_of(
        view,
        partitions=view.commits[:limit],
        more_partitions=max(0, len(view.commits) - limit),
        sources=[EventSource(source=source, events=events) for source, events in view.sources[:_SOURCES]],
        roll_ups=[ROLL_UP.answer_of(each, keys=[_key(key) for key in each.keys]) for each in view.roll_ups],
        expectations=[EXPECTATION.answer_of(each.record, each) for each in view.expectations],
    )


def _key(key: RollUpKey) -> dict[str, Any]:
    """A key of which not all events are at hand has counts, and no names of missing periods."""
    what, late, rewritten = key.what, key.writes.late, key.writes.rewritten
    missing = () if what is None else what.names
    return KEY.answer_of(
        key,
        expected=key.needed if what is None else len(what.expected),
        present=key.have if what is None else len(what.present),
        missing_count=max(0, key.needed - key.have) if what is None else len(missing),
        missing_periods=missing[:_NAMED],
        late=late[:_NAMED],
        late_count=len(late),
        rewritten=rewritten[:_NAMED],
        rewritten_count=len(rewritten),
    )
