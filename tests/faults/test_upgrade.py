"""A rolling upgrade under load loses, doubles and spoils nothing; the long one is `make upgrade BROKER=kafka`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.upgrade import run


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.kafka
@pytest.mark.timeout(240)
async def test_two_releases_side_by_side_lose_nothing(database: str, kafka_log: str, tmp_path: Path) -> None:
    came = await run(database, kafka_log, tmp_path, stage_s=3.0)

    assert came.well, came
