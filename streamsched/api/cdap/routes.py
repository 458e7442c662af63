"""All CDAP routes. The routes below an app also exist below `versions/{version}`; the version is ignored, because
schedules belong to the app, as in CDAP 6.8 and later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsched.api.cdap import apps, lists, preferences, runtimes, schedules
from streamsched.api.routing.routes import VERSION, Route

_APP: Final = "/v3/namespaces/{namespace}/apps/{app}"


def cdap_routes() -> Iterator[Route]:
    """All CDAP routes, in the order in which they are tried."""
    for routes in (apps.of_namespace, lists.of_namespace, runtimes.of_namespace, preferences.routes):
        yield from routes
    of_app = (schedules.routes, lists.of_app, runtimes.of_app)
    # The longer paths are first: below the shorter ones `versions` would match the program category.
    for routes in of_app:
        yield from routes.below(_APP, f"{_APP}{VERSION}")
    for routes in (*of_app, apps.routes):
        yield from routes
