"""A short run of the fault suite on each log; the long one is `make faults BROKER=kafka TRIALS=n SEED=s`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.fault import Fault, How, Who
from tests.faults.run import run
from tests.faults.sites.installation_site import site
from tests.simulation.log import Bug


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(500)
def test_killing_a_worker_and_then_postgres_loses_doubles_and_spoils_nothing(tmp_path: Path) -> None:
    of = (Fault(Who.WORKER, How.LATE), Fault(Who.POSTGRES, How.QUICK))
    with site(tmp_path, "postgres") as there:
        line, well = asyncio.run(run(there, trials=2, seed=1, of=of, schedules=60, events=400))

    assert well, line


@pytest.mark.nightly
@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.kafka
@pytest.mark.timeout(500)
def test_killing_a_launcher_and_then_kafka_loses_doubles_and_spoils_nothing(kafka: str, tmp_path: Path) -> None:
    of = (Fault(Who.LAUNCHER, How.LATE), Fault(Who.KAFKA, How.QUICK))
    with site(tmp_path, "kafka") as there:
        line, well = asyncio.run(run(there, trials=2, seed=1, of=of, schedules=60, events=400))

    assert well, line


@pytest.mark.nightly
@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_without_a_fence_a_stopped_worker_is_found_to_have_written(tmp_path: Path) -> None:
    """That the suite finds what it is for; its other bugs are `--bug` of the long run."""
    of = (Fault(Who.WORKER, How.STOP),)
    with site(tmp_path, "postgres") as there:
        line, well = asyncio.run(run(there, trials=10, seed=31, of=of, bug=Bug.NO_FENCE, schedules=60, events=400))

    assert not well, line
    assert "doubled 0" not in line


@pytest.mark.nightly
@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_a_relay_that_does_not_store_its_position_is_found_to_repeat_itself(tmp_path: Path) -> None:
    of = (Fault(Who.RELAY, How.QUICK),)
    with site(tmp_path, "postgres") as there:
        line, well = asyncio.run(run(there, trials=4, seed=1, of=of, bug=Bug.OUTBOX_POSITION, schedules=60, events=400))

    assert not well, line
    assert "doubled 0" not in line
