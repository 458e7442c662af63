"""Runs that a person started, and file sets the schedule does not wait for."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.triggers.trigger import AllOf, Partitions
from streamsched.spark.context import RunContext
from streamsched.spark.pfs import ManualRead, PartitionedFileSet

JOIN = ProgramRef("prod", "air", "join")
BY_HAND = RunContext("prod.air.join.manual-1.r1", JOIN)
TRIGGER = AllOf(tuple(Partitions(DatasetRef("prod", name), 1) for name in ("flights", "weather")))
TRIGGERED = RunContext("r", JOIN, job_id="j", schedule=ScheduleRef("prod", "air", "daily"), trigger=TRIGGER)


def test_a_run_knows_whether_a_schedule_started_it() -> None:
    assert (BY_HAND.triggered, TRIGGERED.triggered) == (False, True)


@pytest.mark.parametrize("by_hand", ["raise", ManualRead.RAISE])
def test_reading_what_is_new_by_hand_raises_and_says_what_to_do(tmp_path: Path, by_hand: str) -> None:
    flights = PartitionedFileSet("prod.flights", tmp_path)

    with pytest.raises(ConflictError) as caught:
        flights.read_new(BY_HAND, in_manual_run=by_hand)

    for said in (BY_HAND.run_id, "prod.flights", "started by hand", 'in_manual_run="all"', "run.triggered"):
        assert said in str(caught.value)


@pytest.mark.parametrize("by_hand", list(ManualRead))
def test_a_program_may_say_what_it_reads_by_hand(tmp_path: Path, by_hand: ManualRead) -> None:
    """Nothing was ever written here, which is found out only when it reads."""
    with pytest.raises(ConflictError if by_hand is ManualRead.RAISE else NotFoundError):
        PartitionedFileSet("prod.flights", tmp_path).read_new(BY_HAND, in_manual_run=by_hand)


def test_another_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"\$\.in_manual_run: must be one of raise, all, none but is 'yes'"):
        PartitionedFileSet("prod.flights", tmp_path).read_new(TRIGGERED, in_manual_run="yes")


@pytest.mark.parametrize(("dataset", "warned"), [("prod.flights", False), ("prod.weather", False), ("flights", True)])
def test_a_file_set_the_schedule_does_not_wait_for_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, dataset: str, warned: bool
) -> None:
    with caplog.at_level(logging.WARNING, "streamsched.spark"), pytest.raises(NotFoundError):
        PartitionedFileSet(dataset, tmp_path, environ={}).read_new(TRIGGERED)

    assert any("prod.air.daily does not wait for dataset default.flights" in each for each in caplog.messages) is warned


def test_names_in_a_run_are_in_its_namespace(tmp_path: Path) -> None:
    environ = {"STREAMSCHED_NAMESPACE": "prod"}

    assert PartitionedFileSet("flights", tmp_path, environ=environ).dataset == DatasetRef("prod", "flights")
    assert TRIGGERED.namespace == "prod"
    assert TRIGGERED.waits_for(DatasetRef("prod", "flights"))
