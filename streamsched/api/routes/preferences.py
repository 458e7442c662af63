"""Preferences of a namespace: arguments of every run of its programs."""

from __future__ import annotations

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, NamespaceDep, PreferencesDep
from streamsched.api.rendering import rendered
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, VIEW
from streamsched.api.views import preference_view
from streamsched.codec.json.reading import Fields
from streamsched.domain.schedules.preferences import changed_preferences

routes = Routes("/v1/namespaces/{namespace}/preferences", "namespaces")


@routes.get("", "Get the preferences of a namespace", may=VIEW, answers="Preferences")
async def get_preferences(namespace: NamespaceDep, preferences: PreferencesDep) -> Response:
    """Its `arguments`, and when and for which `reason` they last changed. Empty when it has none. `deployed`: whether
    an app was ever deployed to the namespace.
    """
    return rendered(preference_view(await preferences.get(namespace)))


@routes.put("", "Set the preferences of a namespace", may=DEPLOY, body="NewPreferences", answers="Preferences")
async def set_preferences(
    namespace: NamespaceDep, body: BodyObject, preferences: PreferencesDep, clock: ClockDep
) -> Response:
    """Replaces all preferences by `arguments`, an object of texts. Jobs that become runs afterwards have them; runs
    that exist keep their arguments. `reason` (optional) is stored in the history.
    """
    fields = Fields(body)
    fields.required_value("arguments")
    wanted, reason = fields.texts("arguments"), fields.optional_text("reason") or ""
    fields.check_all_read()
    changed = await preferences.change(namespace, lambda _: changed_preferences({}, wanted), reason, now=clock.now())
    return rendered(preference_view(changed))


@routes.patch(
    "", "Change some preferences of a namespace", may=DEPLOY, body="ChangedPreferences", answers="Preferences"
)
async def change_preferences(
    namespace: NamespaceDep, body: BodyObject, preferences: PreferencesDep, clock: ClockDep
) -> Response:
    """Sets each of `arguments`, and removes those whose value is null; the others stay. Otherwise as PUT."""
    fields = Fields(body)
    given, reason = fields.object("arguments"), fields.optional_text("reason") or ""
    changes = {name: given.optional_text(name) for name in given.names()}
    fields.check_all_read()
    changed = await preferences.change(
        namespace, lambda before: changed_preferences(before, changes), reason, now=clock.now()
    )
    return rendered(preference_view(changed))


@routes.delete("", "Delete the preferences of a namespace", may=DEPLOY, answers="Preferences")
async def delete_preferences(namespace: NamespaceDep, preferences: PreferencesDep, clock: ClockDep) -> Response:
    """Removes all of them; a namespace without any stays as it is."""
    return rendered(preference_view(await preferences.change(namespace, lambda _: {}, "", now=clock.now())))
