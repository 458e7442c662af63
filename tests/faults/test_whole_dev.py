"""A short run of `whole_dev`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.whole_dev import run


@pytest.mark.nightly
@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(500)
def test_a_scheduler_killed_twice_runs_every_satisfaction_once(tmp_path: Path) -> None:
    line, well = run(tmp_path, kills=2, seed=1)

    assert well, line
