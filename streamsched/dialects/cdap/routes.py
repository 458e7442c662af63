"""All CDAP routes. The routes below an app also exist below `versions/{version}`; the version is ignored, because
schedules belong to the app, as in CDAP 6.8 and later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsched.api.routing.routes import VERSION, Route
from streamsched.dialects.cdap import apps, lists, preferences, program_runs, re_enabling, runtimes, schedules

_APP: Final = "/v3/namespaces/{namespace}/apps/{app}"


def _all() -> Iterator[Route]:
    for each in (
        apps.of_namespace,
        lists.of_namespace,
        re_enabling.routes,
        runtimes.of_namespace,
        program_runs.of_namespace,
        preferences.routes,
    ):
        yield from each
    of_app = (schedules.routes, lists.of_app, runtimes.of_app, program_runs.routes)
    # The longer paths are first: below the shorter ones `versions` would match the program category.
    for each in of_app:
        yield from each.below(_APP, f"{_APP}{VERSION}")
    for each in (*of_app, apps.routes):
        yield from each


#: All CDAP routes, in the order in which they are tried.
routes: Final = tuple(_all())
