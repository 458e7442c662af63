"""Webhooks of a namespace: targets that are sent changes of its jobs and runs."""

from __future__ import annotations

import secrets
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.access.definitions import check_destination
from streamsched.api.body import BodyObject, reason_of
from streamsched.api.deps import ClockDep, NamespaceDep, ServicesDep, WebhooksDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import json_response
from streamsched.api.routes.webhooks.trial import TRIAL, send_trial
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, VIEW
from streamsched.codec.json.reading import Fields
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.limits import check_duration
from streamsched.domain.time.duration import parse_duration
from streamsched.domain.webhooks.signature import SECRET_BYTES, secret_text
from streamsched.domain.webhooks.webhook import LONGEST_OLD_SECRET, Webhook
from streamsched.store.webhooks.webhooks import WebhookRecord
from streamsched.wire.webhook_definition import CHANGED, DEFINITION, NEW
from streamsched.wire.webhook_state import CREATED, STATE, WebhookState

routes = Routes("/v1/namespaces/{namespace}/webhooks", "webhooks")

_OLD_SECRET_FOR: Final = "oldSecretFor"


@routes.get("", "List webhooks", may=VIEW, answers=STATE.page("webhooks"))
async def list_webhooks(
    namespace: NamespaceDep, webhooks: WebhooksDep, after: After = "", limit: Limit = 100
) -> Response:
    """A page, ordered by name, with how the deliveries of each go."""
    found = await webhooks.page(namespace, after=after, limit=limit + 1)
    return json_response(page("webhooks", found, limit, webhook_view, lambda each: each.webhook.name))


@routes.get("/{webhook}", "Get a webhook", may=VIEW, answers=STATE.answer)
async def get_webhook(namespace: NamespaceDep, webhook: str, webhooks: WebhooksDep) -> Response:
    """`queued`: changes that wait in its queue, at most 1000. `unread`: lines of the history after them, also of those
    that it does not want. `failingSince`, `error`, `attempts` and `nextAt`: of deliveries that failed. What follows
    `?` in its URL is not shown.
    """
    return json_response(webhook_view(await webhooks.get(f"{namespace}.{webhook}")))


@routes.post("", "Create a webhook", may=DEPLOY, body=NEW.body, answers={201: CREATED.answer}, conflict=True)
async def post_webhook(
    namespace: NamespaceDep,
    body: BodyObject,
    caller: CallerDep,
    services: ServicesDep,
) -> Response:
    """Body: `{"name", "url", "changes"?, "schedules"?, "programs"?, "secret"?, "mode"?, "timeout"?, "format"?}`. From
    now on the target is sent each change in a POST with a CloudEvent, signed as the Standard Webhooks specification
    says, at least once; the changes of a schedule in their order. `changes`: such as `run.failed`, `run.*` or `job.*`;
    default: all. With `format` `slack` or `teams` it is sent messages for people as these read them, at most one a
    minute, by default about `failure`; `recovery` is that something is well again.
    `secret`: `{"secret": reference}`, read by launchers; without one a secret is generated, which the answer has and
    no later one. 400 when the URL is not at a public address, unless STREAMSCHED_OUTGOING_NETWORKS permits it. 409 when
    there is a webhook of this name, there are 20 in the namespace, or 100 in all.
    """
    made = NEW.read(body, namespace=namespace)
    check_destination(made.url, services.settings.programs.outgoing_networks, "$.url")
    secret = _new_secret() if made.secret is None else None
    record = await services.webhooks.store.create(made, secret=secret, by=caller.name, now=services.clock.now())
    return json_response(webhook_view(record, CREATED, signing_secret=secret), status=HTTPStatus.CREATED)


@routes.patch("/{webhook}", "Change a webhook", may=DEPLOY, body=CHANGED, answers=CREATED.answer, conflict=True)
async def change_webhook(
    namespace: NamespaceDep, webhook: str, body: BodyObject, caller: CallerDep, services: ServicesDep
) -> Response:
    """Sets the fields of the body, `null` to their defaults; the others stay. Nothing is lost or sent twice: changes
    that wait go to the new URL, signed with the new secret; new filters count for those that are not in its queue yet.
    `"secret": null` generates a new secret, which only this answer has. The secret that is replaced signs beside the
    new one for `oldSecretFor`, by default `1d`, at most `7d`: `oldSecretUntil` of the answer. `0s` ends it at once,
    also without a new secret; 409 when there is no old one. It stays enabled or disabled. Otherwise as POST.
    """
    secret = _new_secret() if "secret" in body and body["secret"] is None else None
    keep_old = _old_secret_for(Fields(body))
    members = {each: value for each, value in body.items() if each != _OLD_SECRET_FOR}

    def change(before: Webhook) -> Webhook:
        after = DEFINITION.read({**DEFINITION.write(before), **members}, namespace=namespace, name=webhook)
        if after.url != before.url:
            check_destination(after.url, services.settings.programs.outgoing_networks, "$.url")
        return after

    record = await services.webhooks.store.change(
        f"{namespace}.{webhook}",
        change,
        secret=secret,
        keep_old=keep_old,
        by=caller.name,
        now=services.clock.now(),
    )
    return json_response(webhook_view(record, CREATED, signing_secret=secret))


@routes.order("/{webhook}/enable", "Enable a webhook", may=DEPLOY, answers=STATE.answer)
async def enable_webhook(
    namespace: NamespaceDep, webhook: str, body: BodyObject, webhooks: WebhooksDep, clock: ClockDep
) -> Response:
    """It goes on with the first change that was not accepted, as far as the history is kept. Idempotent."""
    reason = reason_of(body)
    return json_response(webhook_view(await webhooks.enable(f"{namespace}.{webhook}", True, reason, now=clock.now())))


@routes.order("/{webhook}/disable", "Disable a webhook", may=DEPLOY, answers=STATE.answer)
async def disable_webhook(
    namespace: NamespaceDep, webhook: str, body: BodyObject, webhooks: WebhooksDep, clock: ClockDep
) -> Response:
    """Nothing more is sent; a delivery on its way ends. Changes wait for it to be enabled. Idempotent."""
    reason = reason_of(body)
    return json_response(webhook_view(await webhooks.enable(f"{namespace}.{webhook}", False, reason, now=clock.now())))


@routes.order("/{webhook}/test", "Test a webhook", may=DEPLOY, answers=TRIAL.answer)
async def try_webhook(
    namespace: NamespaceDep,
    webhook: str,
    body: BodyObject,
    services: ServicesDep,
) -> Response:
    """Sends an event of type `streamsched.webhook.test` once, beside the changes that wait, and waits up to 20 seconds:
    `{"accepted", "answer"}`; `accepted` null: no launcher has sent it by then. 409 when the webhook is disabled.
    """
    reason_of(body)
    return json_response(TRIAL.write(await send_trial(services, f"{namespace}.{webhook}")))


@routes.delete("/{webhook}", "Delete a webhook", may=DEPLOY, answers=STATE.answer)
async def delete_webhook(namespace: NamespaceDep, webhook: str, webhooks: WebhooksDep) -> Response:
    """Deletes it with the changes that wait for it, and returns what it was."""
    found = await webhooks.get(f"{namespace}.{webhook}")
    await webhooks.delete(found.webhook.id)
    return json_response(webhook_view(found))


def _old_secret_for(fields: Fields) -> timedelta | None:
    """Raises:
    InvalidDefinitionError: it is no duration, or too long.
    """
    given = fields.optional_text(_OLD_SECRET_FOR)
    if given is None:
        return None
    path = fields.path_of(_OLD_SECRET_FOR)
    duration = parse_duration(given, path)
    check_duration(duration, path, zero=True, longest=LONGEST_OLD_SECRET)
    return duration


def _new_secret() -> str:
    return secret_text(secrets.token_bytes(SECRET_BYTES))


def shown_url(webhook: Webhook) -> str:
    """Its URL without its query, which may have a secret; of one for people without its path, which is one."""
    url, mark, _ = webhook.url.partition("?")
    if webhook.is_for_people:
        return f"{'/'.join(url.split('/', 3)[:3])}/…"
    return f"{url}?…" if mark else url


def webhook_view(found: WebhookRecord, shape: JsonShape[WebhookState] = STATE, **more: str | None) -> dict[str, Any]:
    """A webhook without its secret."""
    return shape.answer_of(
        found.webhook,
        found,
        url=shown_url(found.webhook),
        disabled_by_owner=not found.enabled and found.by_owner,
        error=found.error or None,
        old_secret_until=found.old_until,
        **more,
    )
