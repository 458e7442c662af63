"""The definition of a webhook as JSON, without its name. Only `url` is required.

{"url": "https://host/path", "changes": ["run.failed", "job.*"], "schedules": ["default.flights.weekly"],
 "programs": […], "secret": {"secret": "env:HOOK_KEY"}, "mode": "structured" | "binary", "timeout": "15s",
 "format": "cloudevents" | "slack" | "teams"}

One for people is sent failures, unless it names changes.
"""

from __future__ import annotations

from typing import Any

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.programs.secret import Secret
from streamsched.domain.time.duration import duration_text, parse_duration
from streamsched.domain.webhooks.change import FAILURE
from streamsched.domain.webhooks.webhook import EventMode, Webhook, WebhookFormat


def webhook_to_json(webhook: Webhook) -> dict[str, Any]:
    """The canonical JSON. An earlier release knows no `format`, so the default is left out."""
    form = {} if webhook.format is WebhookFormat.CLOUDEVENTS else {"format": webhook.format.value}
    return {
        "url": webhook.url,
        "changes": sorted(webhook.changes),
        "schedules": sorted(map(str, webhook.schedules)),
        "programs": sorted(map(str, webhook.programs)),
        "secret": None if webhook.secret is None else {"secret": webhook.secret.reference},
        "mode": webhook.mode.value,
        "timeout": duration_text(webhook.timeout),
        **form,
    }


def webhook_from_json(namespace: str, name: str, fields: Fields) -> Webhook:
    """Decodes a definition; missing fields have their defaults.

    Raises:
        DecodeError, InvalidDefinitionError: with the path of the field.
    """
    given: dict[str, Any] = {"url": fields.text("url")}
    sent_as = fields.optional_choice("format", WebhookFormat) or WebhookFormat.CLOUDEVENTS
    given["format"] = sent_as
    changes = frozenset(fields.text_list("changes"))
    if changes or sent_as is not WebhookFormat.CLOUDEVENTS:
        given["changes"] = changes or frozenset({FAILURE})
    for field, ref in (("schedules", ScheduleRef), ("programs", ProgramRef)):
        with prefix_errors(fields.path_of(field)):
            given[field] = frozenset(ref.parse(each) for each in fields.text_list(field))
    secret = fields.optional_object("secret")
    if secret is not None:
        given["secret"] = Secret.parse(secret.text("secret"), secret.path_of("secret"))
        secret.check_all_read()
    mode = fields.optional_choice("mode", EventMode)
    if mode is not None:
        given["mode"] = mode
    timeout = fields.optional_text("timeout")
    if timeout is not None:
        given["timeout"] = parse_duration(timeout, fields.path_of("timeout"))
    fields.check_all_read()
    with prefix_errors(fields.path):
        return Webhook(namespace=namespace, name=name, **given)
