"""CDAP's list of apps, its detail of an app, and the deletion of an app."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, assert_never

from starlette.responses import Response

from streamsched.api.deps import CatalogDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, VIEW
from streamsched.api.streams.long_lists import parts_of, stream_list, stream_object
from streamsched.dialects.cdap import schemas
from streamsched.dialects.cdap.addresses import AppDep
from streamsched.dialects.cdap.codec.trigger import VERSION
from streamsched.dialects.cdap.dialect import CDAP
from streamsched.dialects.cdap.forms import write_form
from streamsched.domain.names import AppRef
from streamsched.domain.triggers.trigger import Partitions, Total, leaves
from streamsched.store.catalog.records import AppSummary, ScheduleStatus

routes = Routes("/v3/namespaces/{namespace}/apps/{app}", "CDAP", CDAP)
of_namespace = Routes("/v3/namespaces/{namespace}", "CDAP", CDAP)

_LARGEST_PAGE: Final = 1000


class NameFilterType(StrEnum):
    """How `nameFilter` is compared with the name of an app."""

    CONTAINS = "CONTAINS"
    EQUALS = "EQUALS"
    EQUALS_IGNORE_CASE = "EQUALS_IGNORE_CASE"


@of_namespace.get("/apps", "List apps", may=VIEW, answers=schemas.APPS)
async def list_apps(
    *,
    namespace: str,
    catalog: CatalogDep,
    page_size: Annotated[
        int | None, Query(alias="pageSize", ge=1, le=_LARGEST_PAGE, description="Apps of a page. Default: all apps.")
    ] = None,
    page_token: Annotated[
        str | None, Query(alias="pageToken", max_length=255, description="`nextPageToken` of the page before.")
    ] = None,
    name_filter: Annotated[str, Query(alias="nameFilter", max_length=255, description="Text to be in the name.")] = "",
    name_filter_type: Annotated[
        NameFilterType, Query(alias="nameFilterType", description="How the name is compared.")
    ] = NameFilterType.CONTAINS,
) -> Response:
    """CDAP's application records, ordered by name: a list; with `pageSize` or `pageToken` a page,
    `{"applications": [...], "nextPageToken": "..."}`, the last one without a token.
    """
    passes = _passes(name_filter, name_filter_type)
    after = "" if page_token is None else str(AppRef(namespace, page_token))
    found = parts_of(
        lambda after, limit: catalog.reader.apps(namespace=namespace, after=after, limit=limit),
        lambda each: str(each.ref),
        after=after,
    )
    if page_size is None and page_token is None:
        return await stream_list(found, lambda part: [_record(each) for each in part if passes(each.ref.app)])
    size, page = page_size or _LARGEST_PAGE, list[AppSummary]()
    async for part in found:
        page += [each for each in part if passes(each.ref.app)]
        if len(page) > size:
            break
    token = {"nextPageToken": page[size - 1].ref.app} if len(page) > size else {}
    return json_response({"applications": [_record(each) for each in page[:size]], **token})


def _passes(text: str, how: NameFilterType) -> Callable[[str], bool]:
    match how:
        case NameFilterType.CONTAINS:
            return lambda name: text.casefold() in name.casefold()
        case NameFilterType.EQUALS:
            return lambda name: not text or name == text
        case NameFilterType.EQUALS_IGNORE_CASE:
            return lambda name: not text or name.casefold() == text.casefold()
        case _:
            assert_never(how)


def _record(app: AppSummary) -> dict[str, Any]:
    return {"type": "App", "name": app.ref.app, "version": VERSION, "description": ""}


@routes.get("", "Get an app", may=VIEW, answers=schemas.APP)
async def get_app(ref: AppDep, catalog: CatalogDep) -> Response:
    """CDAP's detail of an app: its programs, all of them workflows, its schedules, and the datasets that these wait
    for.
    """
    await catalog.reader.app_summary(ref)
    programs = parts_of(
        lambda after, limit: catalog.reader.programs(app=ref, after=after, limit=limit), lambda each: str(each.ref)
    )
    schedules = parts_of(
        lambda after, limit: catalog.reader.schedules(app=ref, after=after, limit=limit),
        lambda each: str(each.record.definition.ref),
    )
    datasets: set[str] = set()

    def view(part: Sequence[ScheduleStatus]) -> list[dict[str, Any]]:
        datasets.update(_datasets(part))
        return [found for each in part if (found := write_form(each)) is not None]

    return await stream_object(
        {"name": ref.app, "appVersion": VERSION, "description": ""},
        [
            (
                "programs",
                programs,
                lambda part: [
                    {"type": "Workflow", "app": ref.app, "name": each.ref.name, "description": ""} for each in part
                ],
            ),
            ("schedules", schedules, view),
        ],
        lambda: {"datasets": [{"name": name, "type": "partitionedFileSet"} for name in sorted(datasets)]},
    )


def _datasets(part: Sequence[ScheduleStatus]) -> Iterator[str]:
    """The names of the datasets that these schedules wait for, without their namespaces, as CDAP has them."""
    for each in part:
        for leaf in leaves(each.record.definition.trigger):
            if isinstance(leaf, Partitions | Total):
                yield leaf.dataset.name


@routes.delete("", "Delete an app", may=DEPLOY, answers="")
async def delete(ref: AppDep, catalog: CatalogDep) -> Response:
    """Deletes the app's schedules and programs and removes them from the triggers of other apps of the namespace.
    Schedules of other namespaces that wait for them stay as they are and say so. Waiting jobs end as
    OBSOLETE; active runs continue. 404 when the app does not exist.
    """
    await catalog.delete_app(ref).apply()
    return Response()
