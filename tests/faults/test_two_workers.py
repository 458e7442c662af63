"""A short run of the fault suite on each log; the long one is `make faults BROKER=kafka TRIALS=n SEED=s`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from tests.faults.two_workers import Ground, run


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(240)
async def test_two_trials_lose_double_and_spoil_nothing(empty_database: str, tmp_path: Path) -> None:
    line, well = await run(Ground(empty_database, empty_database, tmp_path), trials=2, seed=1)

    assert well, line


@pytest.fixture
def cluster(kafka: str, tmp_path: Path) -> Iterator[Cluster]:
    """A Kafka that may be killed."""
    made = Cluster(tmp_path / "kafka", Shape(free_addresses(1)))
    made.start()
    yield made
    made.kill()


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.kafka
@pytest.mark.timeout(400)
async def test_four_trials_on_kafka_one_of_which_kills_it(
    empty_database: str, cluster: Cluster, tmp_path: Path
) -> None:
    line, well = await run(Ground(empty_database, cluster.url, tmp_path, cluster), trials=4, seed=1)

    assert well, line
