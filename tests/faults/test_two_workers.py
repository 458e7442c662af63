"""A short run of the fault suite; the long one is `make faults TRIALS=n SEED=s`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.two_workers import run


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(240)
async def test_two_trials_lose_double_and_spoil_nothing(empty_database: str, tmp_path: Path) -> None:
    line, well = await run(empty_database, tmp_path, trials=2, seed=1)

    assert well, line
