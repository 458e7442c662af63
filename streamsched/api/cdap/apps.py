"""Deleting an app over CDAP's API."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.cdap.addresses import AppDep, find_app
from streamsched.api.deps import CatalogDep
from streamsched.domain.schedules.app import AppDefinition

router = APIRouter()


@router.delete("", summary="Delete an app")
async def delete(ref: AppDep, catalog: CatalogDep) -> Response:
    """Deletes the app's schedules and programs and removes them from the triggers of other apps. Waiting jobs end as
    OBSOLETE; active runs continue. 404 when the app does not exist.
    """
    await find_app(catalog, ref)
    await catalog.deploy(AppDefinition(ref, (), (), frozenset()))
    return Response()
