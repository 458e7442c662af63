"""A world of expectations for each test."""

from __future__ import annotations

import asyncpg
import pytest

from tests.integration.expectations.expectation_world import ExpectationWorld


@pytest.fixture
async def world(pool: asyncpg.Pool) -> ExpectationWorld:
    made = ExpectationWorld(pool)
    await made.begin()
    return made
