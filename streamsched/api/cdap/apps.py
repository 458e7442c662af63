"""CDAP's list of apps, its detail of an app, and the deletion of an app."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.cdap.addresses import AppDep
from streamsched.api.deps import CatalogDep
from streamsched.api.rendering import encoded
from streamsched.api.streams.long_lists import parts_of, stream_list

router = APIRouter()
of_namespace = APIRouter()

#: The version of every app, as in CDAP without versions.
_VERSION: Final = "-SNAPSHOT"


@of_namespace.get("/apps", summary="List apps")
async def list_apps(namespace: str, catalog: CatalogDep) -> Response:
    """CDAP's application records, ordered by name."""
    return await stream_list(
        parts_of(
            lambda after, limit: catalog.apps(namespace=namespace, after=after, limit=limit),
            lambda each: str(each.ref),
        ),
        lambda part: [{"type": "App", "name": each.ref.app, "version": _VERSION, "description": ""} for each in part],
    )


@router.get("", summary="Get an app")
async def get_app(ref: AppDep, catalog: CatalogDep) -> Response:
    """CDAP's detail of an app: its programs, all of them workflows."""
    await catalog.app(ref)
    head = encoded({"name": ref.app, "appVersion": _VERSION, "description": ""})[:-1]
    return await stream_list(
        parts_of(lambda after, limit: catalog.programs(app=ref, after=after, limit=limit), lambda each: str(each.ref)),
        lambda part: [{"type": "Workflow", "app": ref.app, "name": each.ref.name, "description": ""} for each in part],
        around=(head + b',"programs":[', b"]}"),
    )


@router.delete("", summary="Delete an app")
async def delete(ref: AppDep, catalog: CatalogDep) -> Response:
    """Deletes the app's schedules and programs and removes them from the triggers of other apps of the namespace.
    Schedules of other namespaces that wait for them stay as they are and say so. Waiting jobs end as
    OBSOLETE; active runs continue. 404 when the app does not exist.
    """
    await catalog.delete_app(ref)
    return Response()
