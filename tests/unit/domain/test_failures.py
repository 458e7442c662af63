"""Why a run failed: by its state, its exit code, and what its log says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.jobs.failure import Failure, classify, failure_of, signal_of
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.retry import Retry

YARN = "Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB physical memory used."
BEYOND = "Container [pid=1,containerID=c] is running beyond physical memory limits. Killing container."


@pytest.mark.parametrize(
    ("state", "exit_code", "found", "failure"),
    [
        (RunState.LOST, None, None, Failure.LOST),
        (RunState.FAILED, 1, Failure.OOM, Failure.OOM),
        (RunState.FAILED, 1, None, Failure.ERROR),
        (RunState.FAILED, None, None, Failure.ERROR),
        (RunState.FAILED, -9, None, Failure.CRASH),
        (RunState.FAILED, 137, None, Failure.CRASH),
        (RunState.KILLED, -9, None, None),
        (RunState.KILLED, -9, Failure.CANCELLED, Failure.CANCELLED),
        (RunState.COMPLETED, 0, None, None),
    ],
)
def test_an_end_has_its_class(
    state: RunState, exit_code: int | None, found: Failure | None, failure: Failure | None
) -> None:
    assert failure_of(state, exit_code, found) is failure


@pytest.mark.parametrize(
    ("code", "output", "failure"),
    [
        (1, "", Failure.ERROR),
        (-9, "", Failure.CRASH),
        (137, "", Failure.CRASH),
        (143, "", Failure.CRASH),
        (52, "", Failure.OOM),
        (53, "", Failure.ERROR),
        (128, "", Failure.ERROR),
        (255, "", Failure.ERROR),
        (1, "Caused by: java.lang.OutOfMemoryError: Java heap space", Failure.OOM),
        (1, "line\nMemoryError", Failure.OOM),
        (137, YARN, Failure.OOM),
        (143, BEYOND, Failure.OOM),
        (1, "Container preempted by scheduler", Failure.EVICTED),
        (137, "Evicted: The node was low on resource: memory.", Failure.EVICTED),
    ],
)
def test_the_end_of_a_process_has_its_class(code: int, output: str, failure: Failure) -> None:
    assert classify(code, output) is failure


def test_a_kill_is_for_memory_only_when_the_kernel_counted_one() -> None:
    assert classify(137, oom_killed=True) is Failure.OOM
    assert classify(143, oom_killed=True) is Failure.CRASH
    assert classify(1, oom_killed=True) is Failure.ERROR


@given(st.integers(1, 64))
def test_a_shell_and_the_kernel_name_the_same_signal(signal: int) -> None:
    assert signal_of(-signal) == signal_of(128 + signal) == signal


@given(st.integers(1, 2**31), st.text())
def test_every_code_has_a_class(code: int, output: str) -> None:
    assert classify(code, output) in Failure


def test_a_request_to_end_a_driver_in_its_cluster_is_retried_only_by_name() -> None:
    assert not Retry(3).allows(Failure.CANCELLED, 1)
    assert Retry(3, frozenset({Failure.CANCELLED})).allows(Failure.CANCELLED, 1)
    assert all(Retry(3).allows(each, 1) for each in set(Failure) - {Failure.CANCELLED})
