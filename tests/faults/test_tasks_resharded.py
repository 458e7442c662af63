"""A short trial of changes of the partitions of lanes; longer: `python -m tests.faults.tasks.resharding --trials n`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.sites.installation_site import site
from tests.faults.tasks.resharding import run


@pytest.mark.nightly
@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_owners_killed_while_lanes_change_their_partitions_lose_and_disorder_nothing(tmp_path: Path) -> None:
    with site(tmp_path, "postgres") as there:
        line, well = asyncio.run(run(there, trials=2, seed=5, lanes=1000, owners=2))

    assert well, line
