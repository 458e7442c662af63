"""A rolling upgrade under load loses, doubles and spoils nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.upgrade import run


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(240)
async def test_two_releases_side_by_side_lose_nothing(empty_database: str, tmp_path: Path) -> None:
    line, well = await run(empty_database, empty_database, tmp_path, stage_s=3.0)

    assert well, line
