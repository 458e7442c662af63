"""Webhooks as the API answers: what they are, and how their deliveries go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.programs.secret import Secret
from streamsched.domain.webhooks.form import EventMode, WebhookFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookState:
    """A webhook, and how its deliveries go.

    Attributes:
        url: without what follows `?`; of one for people without its path.
        disabled_by_owner: False when it is enabled, or the installation disabled it.
        reason: of `changed_at`, when it was created, enabled or disabled.
        queued: changes that wait for its target.
        unread: lines of the history after those, also of those that it does not want.
        delivered_at: of the latest delivery that was accepted and is still recorded.
        failing_since: since when deliveries fail and none is accepted.
        error: of the change that waits longest for its next attempt; None: none does.
        attempts: failed ones of that change; `next_at`: of the next one.
        old_secret_until: until when the secret before the last one signs beside it.
        signing_secret: the one that was generated; in the answer that made it, and in no other.
    """

    namespace: Annotated[str, About("default")]
    name: Annotated[str, About("alerts")]
    url: Annotated[str, About("https://alerts.example.com/hook")]
    changes: Annotated[Sequence[str], About("run.failed")]
    schedules: Annotated[Sequence[str], About("default.flights.weekly")]
    programs: Annotated[Sequence[str], About("default.flights.join")]
    secret: Secret | None
    mode: EventMode
    timeout: Annotated[str, About("15s")]
    format: WebhookFormat
    enabled: bool
    disabled_by_owner: Annotated[bool, About(False)]
    reason: Annotated[str, About("")]
    changed_at: datetime
    created_at: datetime
    created_by: Annotated[str, About("token:ci")]
    queued: Annotated[int, About(2)]
    unread: Annotated[int, About(0)]
    delivered_at: datetime | None
    failing_since: datetime | None
    error: str | None
    attempts: Annotated[int, About(3)]
    next_at: datetime | None
    old_secret_until: datetime | None
    signing_secret: Annotated[str | None, About("whsec_…", "The generated secret. It is shown only here.")] = field(
        default=None, repr=False
    )


STATE: Final = JsonShape(WebhookState, "Webhook", outside=("signing_secret",))
CREATED: Final = JsonShape(WebhookState, "CreatedWebhook", sometimes=("signingSecret",))
