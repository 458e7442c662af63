"""The names of quotas."""

from __future__ import annotations

from enum import StrEnum


class Quota(StrEnum):
    """What is limited."""

    SCHEDULES = "schedules"
    ACCUMULATIONS = "accumulations"
    RUNS = "runs"
    EVENTS = "events_per_second"
    BODY = "body_bytes"
    NAMES = "shared_names"
    WEBHOOKS = "webhooks"
    LOGS = "log_bytes"
