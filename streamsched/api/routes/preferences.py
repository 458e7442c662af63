"""Preferences of a namespace: arguments of every run of its programs."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, NamespaceDep, PreferencesDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, VIEW
from streamsched.domain.schedules.preferences import changed_preferences
from streamsched.store.catalog.preferences import PreferenceRecord
from streamsched.wire.namespaces import CHANGED_PREFERENCES, NEW_PREFERENCES, PREFERENCES

routes = Routes("/v1/namespaces/{namespace}/preferences", "namespaces")


@routes.get("", "Get the preferences of a namespace", may=VIEW, answers=PREFERENCES.answer)
async def get_preferences(namespace: NamespaceDep, preferences: PreferencesDep) -> Response:
    """Its `arguments`, and when and for which `reason` they last changed. Empty when it has none. `deployed`: whether
    an app was ever deployed to the namespace.
    """
    return json_response(_view(await preferences.get(namespace)))


@routes.put("", "Set the preferences of a namespace", may=DEPLOY, body=NEW_PREFERENCES.body, answers=PREFERENCES.answer)
async def set_preferences(
    namespace: NamespaceDep, body: BodyObject, preferences: PreferencesDep, clock: ClockDep
) -> Response:
    """Replaces all preferences by `arguments`, an object of texts. Jobs that become runs afterwards have them; runs
    that exist keep their arguments. `reason` (optional) is stored in the history.
    """
    wanted = NEW_PREFERENCES.read(body)
    changed = await preferences.change(
        namespace, lambda _: changed_preferences({}, wanted.arguments), wanted.reason, now=clock.now()
    )
    return json_response(_view(changed))


@routes.patch(
    "", "Change some preferences of a namespace", may=DEPLOY, body=CHANGED_PREFERENCES.body, answers=PREFERENCES.answer
)
async def change_preferences(
    namespace: NamespaceDep, body: BodyObject, preferences: PreferencesDep, clock: ClockDep
) -> Response:
    """Sets each of `arguments`, and removes those whose value is null; the others stay. Otherwise as PUT."""
    wanted = CHANGED_PREFERENCES.read(body)
    changed = await preferences.change(
        namespace, lambda before: changed_preferences(before, wanted.arguments), wanted.reason, now=clock.now()
    )
    return json_response(_view(changed))


@routes.delete("", "Delete the preferences of a namespace", may=DEPLOY, answers=PREFERENCES.answer)
async def delete_preferences(namespace: NamespaceDep, preferences: PreferencesDep, clock: ClockDep) -> Response:
    """Removes all of them; a namespace without any stays as it is."""
    return json_response(_view(await preferences.change(namespace, lambda _: {}, "", now=clock.now())))


def _view(preferences: PreferenceRecord) -> dict[str, Any]:
    return PREFERENCES.answer_of(preferences, arguments=dict(sorted(preferences.arguments.items())))
