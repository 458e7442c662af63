"""The loss of a datacentre under load; again with other seeds: `make datacentre SEED=s`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.datacentre import run
from tests.faults.sites.datacentres import datacentres
from tests.faults.sites.far_side import possible
from tests.support.services import need


@pytest.mark.nightly
@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.kafka
@pytest.mark.timeout(400)
def test_a_lost_broker_primary_and_launcher_cost_nothing_that_was_acknowledged(kafka: str, tmp_path: Path) -> None:
    """The fixture `kafka` makes sure that the jars are in the cache."""
    need("the right to make network namespaces", possible(), "apt-get install iproute2, and run as root")
    tmp_path.chmod(0o755)
    with datacentres(tmp_path) as there:
        line, well = asyncio.run(run(there, seed=1))

    assert well, line
