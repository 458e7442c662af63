"""Short trials of each kind; the long ones are `make trial KIND=… BROKER=… SEED=… N=…`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.faults.sites.far_side import possible
from tests.faults.soak import GROWS
from tests.support.java_classes import need_compiler
from tests.support.services import need, need_java, need_kafka_jars, need_program
from tests.trial import Outcome, requested, run

pytestmark = [pytest.mark.torture, pytest.mark.postgres]

NIGHTLY = pytest.mark.nightly
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
@pytest.mark.timeout(500)
async def test_an_installation_that_keeps_everything_for_a_minute_loses_doubles_and_spoils_nothing(play: Play) -> None:
    """What grows shows in a longer soak only."""
    outcome = await play("soak", "--minutes=2", "--every=2")

    assert outcome.rounds > 1
    deviations = outcome.total.counts - Counter({GROWS: outcome.total[GROWS]})
    assert not deviations, outcome.words


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


@pytest.mark.kafka
@pytest.mark.parametrize("broker", ["postgres", pytest.param("kafka", marks=pytest.mark.nightly)])
@pytest.mark.timeout(400)
async def test_owners_that_are_killed_paused_or_stopped_lose_and_disorder_nothing(
    broker: str, play: Play, request: pytest.FixtureRequest
) -> None:
    if broker == "kafka":
        request.getfixturevalue("kafka")  # so that the jars are in the cache
    few = "-n1" if broker == "kafka" else "-n2"
    outcome = await play("tasks", f"--broker={broker}", few, "--seed=3", "--lanes=1000", "--owners=2")

    assert outcome.well, outcome.words


@pytest.mark.nightly
@pytest.mark.timeout(400)
async def test_owners_killed_while_lanes_change_their_partitions_lose_and_disorder_nothing(play: Play) -> None:
    outcome = await play("resharding", "-n2", "--seed=5", "--lanes=1000", "--owners=2")

    assert outcome.well, outcome.words


@pytest.mark.timeout(300)
async def test_what_was_due_during_a_week_is_delivered_in_order_and_new_lanes_take_their_turn(play: Play) -> None:
    outcome = await play("downtime", "-n6000")

    assert outcome.well, outcome.words


@pytest.fixture
def namespaces() -> None:
    need("the right to make network namespaces", possible(), "apt-get install iproute2, and run as root")


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.timeout(400)
async def test_a_lost_broker_primary_and_launcher_cost_nothing_that_was_acknowledged(
    kafka: str, namespaces: None, play: Play
) -> None:
    outcome = await play("datacentre")

    assert outcome.well, outcome.words


@pytest.mark.kafka
@pytest.mark.timeout(400)
async def test_half_an_installation_cut_off_from_kafka_loses_doubles_and_spoils_nothing(
    kafka: str, namespaces: None, play: Play
) -> None:
    outcome = await play("outage-cut", "-n1", "--seed=0", "--seconds=8")

    assert outcome.well, outcome.words


@pytest.mark.kafka
@pytest.mark.timeout(240)
async def test_two_releases_side_by_side_lose_nothing(kafka: str, play: Play) -> None:
    """How long an event waits depends on the machine."""
    outcome = await play("upgrade", "--broker=kafka", "--stage=3", "--longest=inf")

    assert outcome.well, outcome.words


@pytest.mark.kafka
@pytest.mark.timeout(300)
async def test_what_came_after_the_backup_is_replayed_from_the_log(play: Play) -> None:
    need_kafka_jars()
    outcome = await play("restore")

    assert outcome.well, outcome.words
    assert outcome.counts["before the dump"] > 0
    assert outcome.counts["after it"] > 0
    assert outcome.total["repeated"] > 0, "the backup knew all of it: the drill shows nothing"


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_everything_killed_in_the_middle_does_each_nodes_work_once(play: Play) -> None:
    outcome = await play("graphs", "-n4")

    assert outcome.well, outcome.words


@pytest.mark.nightly
@pytest.mark.timeout(500)
async def test_a_scheduler_killed_twice_runs_every_satisfaction_once(play: Play) -> None:
    outcome = await play("dev", "-n2")

    assert outcome.well, outcome.words


@pytest.mark.timeout(900)
async def test_yarn_replaces_a_killed_worker_and_a_killed_launcher_and_each_job_is_done_once(play: Play) -> None:
    need_java()
    need_program("mvn", "maven")
    need_compiler()
    outcome = await play("yarn", "-n2")

    assert outcome.well, outcome.words
    assert (outcome.counts["containers"], outcome.counts["replaced"], outcome.counts["jobs"]) == (5, 2, 60)


@pytest.mark.timeout(600)
async def test_every_run_ends_once_and_truly_whatever_is_killed(play: Play) -> None:
    need_java()  # it is only asked for its version
    outcome = await play("spark-fake", "-n6", "--seed=2")

    assert outcome.well, outcome.words


@pytest.mark.timeout(600)
async def test_runs_that_end_while_postgresql_is_away_are_not_repeated(play: Play) -> None:
    need_java()
    outcome = await play("spark-fake", "--outage=3")

    assert outcome.well, outcome.words
    assert outcome.counts["runs"] == 2


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", [pytest.param("s3", marks=NIGHTLY), "delta"])
async def test_killed_writers_and_watchers_leave_no_half_commit(store: str, play: Play) -> None:
    outcome = await play(f"writers-{store}", "-n3")

    assert outcome.well, outcome.words


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "store", ["folder", "file", "delta", *(pytest.param(each, marks=NIGHTLY) for each in ("plain", "s3", "iceberg"))]
)
async def test_attempts_that_were_replaced_commit_nothing(store: str, play: Play) -> None:
    outcome = await play(f"attempts-{store}", "-n10")

    assert outcome.well, outcome.words
