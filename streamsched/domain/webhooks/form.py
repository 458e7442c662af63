"""The form of what a webhook is sent."""

from __future__ import annotations

from enum import StrEnum


class WebhookFormat(StrEnum):
    """What a webhook is sent: each change as a CloudEvent, or messages for people, as Slack or Teams read them."""

    CLOUDEVENTS = "cloudevents"
    SLACK = "slack"
    TEAMS = "teams"


class EventMode(StrEnum):
    """How a CloudEvent is sent: as one JSON object, or its attributes as headers and its data as body."""

    STRUCTURED = "structured"
    BINARY = "binary"
