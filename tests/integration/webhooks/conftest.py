"""A world of webhooks for each test."""

from __future__ import annotations

import asyncpg
import pytest

from tests.integration.webhooks.webhook_world import WebhookWorld


@pytest.fixture
def world(pool: asyncpg.Pool) -> WebhookWorld:
    return WebhookWorld(pool)
