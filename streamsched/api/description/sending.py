"""Schemas of webhooks and of the stream of decisions."""

from __future__ import annotations

from typing import Final

from streamsched.api.description.shared_schemas import MAYBE_TEXT, WHEN, paged
from streamsched.codec.schema.shapes import (
    Definitions,
    answer,
    any_text,
    array,
    boolean,
    choice,
    duration,
    extend,
    instant,
    integer,
    nullable,
    record,
    ref,
    text,
)
from streamsched.domain.webhooks.change import FAILURE, GROUPS, OTHERS, RECOVERY, STATES
from streamsched.domain.webhooks.webhook import EventMode, WebhookFormat

_CHANGES: Final = [FAILURE, RECOVERY, *GROUPS, *STATES, *OTHERS.values()]
_CHANGE: Final = {"type": "string", "enum": _CHANGES, "examples": ["run.failed"]}
_SECRET: Final = record({"secret": text("env:HOOK_KEY")}, about="A secret by reference.")
_URL: Final = text("https://alerts.example.com/hook", maxLength=2000)
_CHOSEN: Final = {
    "changes": array(_CHANGE),
    "schedules": array(text("default.flights.weekly"), maxItems=100),
    "programs": array(text("default.flights.join"), maxItems=100),
    "mode": choice(EventMode),
    "timeout": duration("15s"),
    "format": choice(WebhookFormat),
}
_WEBHOOK: Final = answer(
    {
        "namespace": any_text("default"),
        "name": any_text("alerts"),
        "url": any_text("https://alerts.example.com/hook"),
        "changes": array(any_text("run.failed")),
        "schedules": array(any_text("default.flights.weekly")),
        "programs": array(any_text("default.flights.join")),
        "secret": nullable(_SECRET),
        "mode": choice(EventMode),
        "timeout": any_text("15s"),
        "format": choice(WebhookFormat),
        "enabled": boolean(),
        "disabledByOwner": boolean(example=False),
        "reason": any_text(""),
        "changedAt": instant(),
        "createdAt": instant(),
        "createdBy": any_text("token:ci"),
        "queued": integer(2),
        "unread": integer(0),
        "deliveredAt": WHEN,
        "failingSince": WHEN,
        "error": MAYBE_TEXT,
        "attempts": integer(3),
        "nextAt": WHEN,
        "oldSecretUntil": WHEN,
    }
)

SENDING: Final[Definitions] = {
    "Webhook": _WEBHOOK,
    "WebhookPage": paged("webhooks", ref("Webhook")),
    "NewWebhook": record(
        {"name": text("alerts", minLength=1, maxLength=200, pattern="^[a-zA-Z0-9_][a-zA-Z0-9_-]*$"), "url": _URL},
        {**_CHOSEN, "secret": _SECRET},
    ),
    "ChangedWebhook": record({}, {"url": _URL, **_CHOSEN, "secret": nullable(_SECRET), "oldSecretFor": duration("1d")}),
    "CreatedWebhook": extend(
        _WEBHOOK, answer({}, {"signingSecret": any_text("whsec_…", "The generated secret. It is shown only here.")})
    ),
    "DecisionStream": any_text(
        'id: 17\nevent: job.waits\ndata: {"number": 17, "kind": "job", "subject": "default.flights.weekly.1.7", …}\n\n'
    ),
    "WebhookTest": answer({"accepted": nullable(boolean()), "answer": any_text("HTTP 204")}),
}
