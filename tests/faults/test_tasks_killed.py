"""A short trial of the owners of tasks; the long one is `make task-faults BROKER=postgres|kafka TRIALS=n SEED=s`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.sites.installation_site import site
from tests.faults.tasks.run import run


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.kafka
@pytest.mark.parametrize("broker", ["postgres", pytest.param("kafka", marks=pytest.mark.nightly)])
@pytest.mark.timeout(400)
def test_owners_that_are_killed_paused_or_stopped_lose_and_disorder_nothing(
    broker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if broker == "kafka":
        request.getfixturevalue("kafka")  # so that the jars are in the cache
    with site(tmp_path, broker) as there:
        line, well = asyncio.run(run(there, trials=1 if broker == "kafka" else 2, seed=3, lanes=1000, owners=2))

    assert well, line
