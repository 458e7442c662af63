"""All of CDAP's addresses. What is below an app exists a second time below each of its versions, which say nothing:
schedules are of an app, whatever its version, as in CDAP from 6.8 on.
"""

from __future__ import annotations

from fastapi import APIRouter

from streamsched.api.cdap import lists, runtimes, schedules


def cdap_routes() -> APIRouter:
    """The routes, made anew."""
    of_app = APIRouter()
    for router in (schedules.router, lists.of_app, runtimes.of_app):
        of_app.include_router(router)
    routes = APIRouter(prefix="/v3/namespaces/{namespace}", tags=["CDAP"])
    for router in (lists.of_namespace, runtimes.of_namespace):
        routes.include_router(router)
    # First the longer address: `versions` would be taken for a category of programs by the shorter one.
    routes.include_router(of_app, prefix="/apps/{app}/versions/{version}", include_in_schema=False)
    routes.include_router(of_app, prefix="/apps/{app}")
    return routes
