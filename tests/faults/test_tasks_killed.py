"""A short trial of the owners of tasks; the long one is `make task-faults TRIALS=n SEED=s`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.sites.installation_site import site
from tests.faults.tasks.run import run


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_owners_that_are_killed_paused_or_stopped_lose_and_disorder_nothing(tmp_path: Path) -> None:
    with site(tmp_path, "postgres") as there:
        line, well = asyncio.run(run(there, trials=2, seed=3, lanes=1000, owners=2))

    assert well, line
