"""How many inline runs a launcher holds, against a launcher that is simulated run by run."""

from __future__ import annotations

from statistics import median

from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.domain.jobs.in_flight import FIRST, InFlightWindow, load_of
from streamsched.testing.examples import examples

loads = st.floats(0, 20)
sizes = st.integers(0, 5000)


@given(sizes, st.lists(st.tuples(sizes, loads)))
@examples(200)
def test_a_window_keeps_its_bounds_and_at_most_doubles(most: int, steps: list[tuple[int, float]]) -> None:
    window = InFlightWindow(most)
    for held, load in steps:
        after = window.adjust(held=held, load=load)
        assert min(FIRST, most) <= after.size <= most
        assert after.size <= 2 * window.size
        assert load <= 1 or after.size <= max(window.size // 2, min(FIRST, most))
        assert after.size <= window.size or held >= window.size
        window = after


def settled(per_step_s: float, per_run_s: float, *, answer_s: float) -> list[tuple[int, float]]:
    """The sizes and step times of a launcher that always has more to do. A step stores `per_run_s` for each run that
    ends in it; requests are answered after `answer_s`, so that in one step the share `step / answer_s` of them ends.
    """
    window, step_s, seen = InFlightWindow(1024), per_step_s, list[tuple[int, float]]()
    for _ in range(400):
        ending = window.size * min(1.0, step_s / answer_s) if answer_s else float(window.size)
        step_s = per_step_s + per_run_s * ending
        window = window.adjust(held=window.size, load=load_of(step_s=step_s, lag_s=0))
        seen.append((window.size, step_s))
    return seen[200:]


@given(st.floats(0.001, 0.1), st.floats(0.00001, 0.2), st.floats(0, 1))
@example(0.01, 0.02, 0.0)
@examples(200)
def test_what_is_held_is_executed_within_about_a_second(per_step_s: float, per_run_s: float, answer_s: float) -> None:
    seen = settled(per_step_s, per_run_s, answer_s=answer_s)
    for size, step_s in seen:
        if size > FIRST:
            assert step_s <= 4
    assert median(size for size, _ in seen) == FIRST or median(step_s for _, step_s in seen) <= 2


@given(st.floats(0.001, 0.1), st.floats(5, 60))
@examples(50)
def test_slow_servers_get_as_many_requests_as_the_capacity(per_step_s: float, answer_s: float) -> None:
    assert settled(per_step_s, 0.0001, answer_s=answer_s)[-1][0] == 1024


@given(st.integers(FIRST, 1024))
def test_a_window_that_is_hardly_used_returns_to_its_first_size(size: int) -> None:
    window = InFlightWindow(1024, size)
    for _ in range(10):
        window = window.adjust(held=0, load=0)
    assert window.size == FIRST
