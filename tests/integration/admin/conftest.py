"""The installation that an administrator's tests look at."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.admin.site import Site, opened


@pytest.fixture
async def site(database: str) -> AsyncIterator[Site]:
    async with opened(database) as made:
        yield made
