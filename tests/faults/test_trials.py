"""Short trials of each kind; the long ones are `make trial KIND=… BROKER=… SEED=… N=…`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.trial import Outcome, requested, run

pytestmark = [pytest.mark.torture, pytest.mark.postgres]

#: Options of an installation that is small enough for a test.
SMALL = ("--schedules", "60", "--events", "400")
Play = Callable[..., Awaitable[Outcome]]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs a kind with its options, as the command line does."""
    return lambda *words: run(requested(*words), tmp_path)


@pytest.mark.timeout(500)
async def test_killing_a_worker_and_then_postgres_loses_doubles_and_spoils_nothing(play: Play) -> None:
    outcome = await play("installation", "-n2", *SMALL, "--fault", "worker late", "postgres quick")

    assert outcome.well, outcome.words


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.timeout(500)
async def test_killing_a_launcher_and_then_kafka_loses_doubles_and_spoils_nothing(kafka: str, play: Play) -> None:
    """The fixture `kafka` makes sure that the jars are in the cache."""
    faults = ("--fault", "launcher late", "kafka quick")
    outcome = await play("installation", "--broker=kafka", "-n2", *SMALL, *faults)

    assert outcome.well, outcome.words


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_without_a_fence_a_stopped_worker_is_found_to_have_written(play: Play) -> None:
    """That the trial finds what it is for; its other bugs are `--bug` of the long run."""
    bug = ("--bug=no-fence", "--fault", "worker stop")
    outcome = await play("installation", "-n10", "--seed=31", *SMALL, *bug)

    assert outcome.total.doubled, outcome


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_a_relay_that_does_not_store_its_position_is_found_to_repeat_itself(play: Play) -> None:
    bug = ("--bug=outbox-position", "--fault", "relay quick")
    outcome = await play("installation", "-n4", *SMALL, *bug)

    assert outcome.total.doubled, outcome
