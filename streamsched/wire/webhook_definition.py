"""The definition of a webhook, as it is asked for, changed and stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import duration
from streamsched.domain.webhooks.change import FAILURE, GROUPS, OTHERS, RECOVERY, STATES
from streamsched.domain.webhooks.webhook import Webhook

_MEMBERS: Final[Mapping[str, About]] = {
    "name": About("alerts", minLength=1, maxLength=200, pattern="^[a-zA-Z0-9_][a-zA-Z0-9_-]*$"),
    "url": About("https://alerts.example.com/hook", maxLength=2000),
    "changes": About("run.failed", enum=[FAILURE, RECOVERY, *GROUPS, *STATES, *OTHERS.values()]),
    "schedules": About(maxItems=100),
    "programs": About(maxItems=100),
    "timeout": About("15s"),
}

#: What is stored, and what a change changes.
DEFINITION: Final = JsonShape(Webhook, outside=("namespace", "name"), about=_MEMBERS)
NEW: Final = JsonShape(Webhook, "NewWebhook", outside=("namespace",), about=_MEMBERS)
CHANGED: Final = DEFINITION.change_schema("ChangedWebhook", oldSecretFor=duration("1d"))
