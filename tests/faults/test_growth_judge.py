"""What is said to grow: a leak in spite of noise, and nothing that only goes up and down."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.judges.growth import BYTES, ROWS, WINDOWS, Sample, Unit, Verdict, judge_growth

HOUR_S, EVERY_S = 3600, 5
MB = 1e6


def judged(value: Callable[[float], float], unit: Unit = BYTES, *, seconds: int = HOUR_S) -> Verdict:
    samples = [Sample(at, value(at)) for at in range(0, seconds, EVERY_S)]
    return judge_growth(samples, unit, warm_s=seconds / 3).verdict


def test_a_leak_of_six_megabytes_an_hour_is_found_under_a_saw_of_ten() -> None:
    assert judged(lambda at: 60 * MB + 6 * MB * at / HOUR_S + 10 * MB * (at % 40) / 40) is Verdict.GROWS


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_never_grows(seed: int) -> None:
    rng = random.Random(seed)
    assert judged(lambda _: rng.gauss(100 * MB, 10 * MB)) is not Verdict.GROWS


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_that_returns_never_grows(seed: int) -> None:
    """Noise whose samples depend on each other."""
    rng, level = random.Random(seed), 0.0

    def value(_: float) -> float:
        nonlocal level
        level = 0.9 * level + rng.gauss(0, MB)
        return 100 * MB + level

    assert judged(value) is not Verdict.GROWS


def test_what_grows_in_the_warm_up_alone_is_flat() -> None:
    assert judged(lambda at: 50 * MB + 40 * MB * min(1.0, at / (HOUR_S / 3))) is Verdict.FLAT


def test_what_shrinks_is_flat() -> None:
    assert judged(lambda at: 90 * MB - 10 * MB * at / HOUR_S) is Verdict.FLAT


def test_growth_below_the_tolerance_of_a_unit_is_flat() -> None:
    assert judged(lambda at: 10 + 100 * at / HOUR_S, ROWS) is Verdict.FLAT
    assert judged(lambda at: 10 + 300 * at / HOUR_S, ROWS) is Verdict.GROWS


def test_much_noise_in_a_short_soak_is_unsure_and_says_at_most_how_much() -> None:
    rng = random.Random(1)
    samples = [Sample(at, rng.gauss(50 * MB, 20 * MB)) for at in range(0, 120, 5)]
    found = judge_growth(samples, BYTES, warm_s=40)

    assert found.verdict is Verdict.UNSURE
    assert str(found).startswith("unsure: at most ")


def test_a_gap_in_the_samples_makes_no_growth_and_too_few_are_refused() -> None:
    samples = [Sample(at, 5 * MB) for at in (*range(0, 600, 5), *range(2400, 3600, 5))]

    assert judge_growth(samples, BYTES, warm_s=0).verdict is Verdict.FLAT
    with pytest.raises(ValueError, match=f"{WINDOWS} are needed"):
        judge_growth(samples[:5], ROWS, warm_s=0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=WINDOWS, max_size=80), st.floats(-1e6, 1e6), st.floats(0, 1e9))
def test_a_level_changes_no_slope_and_a_slope_is_found_as_it_was_added(
    noise: list[float], slope: float, level: float
) -> None:
    def found(added: float, by: float) -> float:
        samples = [Sample(at, value + added + by * at) for at, value in enumerate(noise)]
        return judge_growth(samples, BYTES, warm_s=0).per_hour / HOUR_S

    assert math.isclose(found(level, slope), found(0, 0) + slope, rel_tol=1e-6, abs_tol=1)
