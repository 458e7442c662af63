"""CDAP's preferences of a namespace. CDAP's other levels (instance, app, program) do not exist here."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, NamespaceDep, PreferencesDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, VIEW
from streamsched.codec.json.scalar import texts
from streamsched.dialects.cdap import schemas
from streamsched.dialects.cdap.dialect import CDAP
from streamsched.domain.schedules.preferences import changed_preferences

routes = Routes("/v3/namespaces/{namespace}/preferences", "CDAP", CDAP)

ResolvedQuery = Annotated[
    bool, Query(description="With the preferences of the levels above; there are none, so it is the same.")
]


@routes.get("", "Get the preferences of a namespace", may=VIEW, answers=schemas.PREFERENCES)
async def get_preferences(
    namespace: NamespaceDep, preferences: PreferencesDep, *, resolved: ResolvedQuery = False
) -> Response:
    """An object of texts; empty when the namespace has none."""
    return json_response(dict((await preferences.get(namespace)).arguments))


@routes.put("", "Set the preferences of a namespace", may=DEPLOY, body=schemas.PREFERENCES, answers="")
async def set_preferences(
    namespace: NamespaceDep, body: BodyObject, preferences: PreferencesDep, clock: ClockDep
) -> Response:
    """Replaces all of them by the body, an object of texts; numbers and booleans become texts."""
    wanted = texts(body, "$")
    await preferences.change(namespace, lambda _: changed_preferences({}, wanted, "$"), "", now=clock.now())
    return Response()


@routes.delete("", "Delete the preferences of a namespace", may=DEPLOY, answers="")
async def delete_preferences(namespace: NamespaceDep, preferences: PreferencesDep, clock: ClockDep) -> Response:
    """Removes all of them; a namespace without any stays as it is."""
    await preferences.change(namespace, lambda _: {}, "", now=clock.now())
    return Response()
