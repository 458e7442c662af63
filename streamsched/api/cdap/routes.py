"""All CDAP routes. The routes below an app also exist below `versions/{version}`; the version is ignored, because
schedules belong to the app, as in CDAP 6.8 and later.
"""

from __future__ import annotations

from fastapi import APIRouter

from streamsched.api.cdap import apps, lists, preferences, runtimes, schedules


def cdap_routes() -> APIRouter:
    """Creates a router with all CDAP routes."""
    of_app = APIRouter()
    for router in (schedules.router, lists.of_app, runtimes.of_app):
        of_app.include_router(router)
    routes = APIRouter(prefix="/v3/namespaces/{namespace}", tags=["CDAP"])
    for router in (apps.of_namespace, lists.of_namespace, runtimes.of_namespace, preferences.router):
        routes.include_router(router)
    # The longer prefix is registered first: below the shorter one `versions` would match the program category.
    routes.include_router(of_app, prefix="/apps/{app}/versions/{version}")
    routes.include_router(of_app, prefix="/apps/{app}")
    routes.include_router(apps.router, prefix="/apps/{app}")
    return routes
