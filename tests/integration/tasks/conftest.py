"""A world of tasks for each test."""

from __future__ import annotations

import asyncpg
import pytest

from tests.integration.tasks.task_world import TaskWorld


@pytest.fixture
def world(pool: asyncpg.Pool) -> TaskWorld:
    return TaskWorld(pool)
