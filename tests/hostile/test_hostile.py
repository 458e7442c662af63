"""A short run of the hostile suite; the long one is `make trial KIND=hostile BROKER=kafka SEED=s N=2000`."""

from __future__ import annotations

import asyncio
import random
import sys

import pytest

from tests.hostile.cases import case, cases
from tests.hostile.trial import Batches

#: Drawn in each run, and printed.
RANDOM = random.randrange(1_000_000)


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("seed", "count"),
    [
        pytest.param(12, 15, id="few"),
        pytest.param(11, 50, id="fixed", marks=(pytest.mark.long, pytest.mark.nightly)),
        pytest.param(RANDOM, 50, id="random", marks=(pytest.mark.long, pytest.mark.nightly)),
    ],
)
def test_hostile_content_stops_only_itself(seed: int, count: int) -> None:
    sys.stdout.write(f"make trial KIND=hostile SEED={seed} N={count} repeats this\n")
    some = [each for each in cases(seed, count, heavy=False) if each.way not in {"file", "command"}]

    tally = asyncio.run(Batches("postgres", 25, lambda *_: None).run(some))

    assert tally.judgement.clean, (seed, tally.judgement.words)


def test_a_case_is_the_same_whatever_else_is_drawn() -> None:
    assert [str(each) for each in cases(3, 60)][:40] == [str(each) for each in cases(3, 40)]
    assert str(case(3, 35)) == str([*cases(3, 40)][35])
