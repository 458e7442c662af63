"""A short cut between half an installation and its Kafka; the long runs are `make outages KIND=… TRIALS=n SEED=s`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kafka_outages import outage_site, run
from tests.faults.outage import Kind
from tests.faults.sites.far_side import possible
from tests.support.services import need


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.kafka
@pytest.mark.timeout(400)
async def test_half_an_installation_cut_off_from_kafka_loses_doubles_and_spoils_nothing(
    kafka: str, tmp_path: Path
) -> None:
    """The fixture `kafka` makes sure that the jars are in the cache."""
    need("the right to make network namespaces", possible(), "apt-get install iproute2, and run as root")
    with outage_site(Kind.CUT, tmp_path) as there:
        line, well = await run(there, Kind.CUT, trials=1, seed=0, cut_s=8)

    assert well, line
