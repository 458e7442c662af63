"""A short run of the simulation; the long one is `make simulate SEEDS=n`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.fault import Fault, Kind
from tests.simulation.log import Bug
from tests.simulation.seed import run
from tests.simulation.shrinking import shrunk

ROOT = Path(__file__).parents[2]
LAST_LINE = re.compile(r"seeds (\d+) faults (\d+) jobs (\d+) lost (\d+) doubled (\d+) wrong (\d+)")


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As `make simulate` does, so that a seed that fails here fails there."""
    command = (sys.executable, "-m", "tests.simulation.run", *arguments)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def counts(done: subprocess.CompletedProcess[str]) -> list[int]:
    last = LAST_LINE.fullmatch(done.stdout.splitlines()[-1])
    assert last is not None, done.stdout + done.stderr
    return [int(number) for number in last.groups()]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("first", "number"),
    [
        (1, 6),
        pytest.param(7, 24, marks=pytest.mark.long),
        pytest.param(31, 30, marks=(pytest.mark.long, pytest.mark.nightly)),
    ],
)
def test_no_seed_loses_doubles_or_spoils_anything(first: int, number: int) -> None:
    done = simulate("--first", str(first), "--seeds", str(number))

    seeds, faults, jobs, *bad = counts(done)
    assert (done.returncode, seeds, bad) == (0, number, [0, 0, 0]), done.stdout
    assert faults > 2 * seeds
    assert jobs > 2 * seeds


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_seed_replays_exactly() -> None:
    first, again, other = run(7), run(7), run(8)

    assert again.trace == first.trace
    assert again.digest == first.digest != other.digest


def test_a_seed_replays_exactly_in_another_process() -> None:
    assert simulate("--seed", "7").stdout == simulate("--seed", "7").stdout


#: Those that take the most seeds to be found, and to be shrunk.
DEAR = (Bug.TABLE_KEPT, Bug.EARLY_OPENING)
#: Those that take more than a hundred seeds: the first of some that find them.
RARE = {Bug.EARLY_OPENING: 101, Bug.NOT_CAUGHT_UP: 151}


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("bug", [pytest.param(each, marks=pytest.mark.nightly if each in DEAR else ()) for each in Bug])
def test_each_seeded_bug_is_found_and_shrunk(bug: Bug) -> None:
    done = simulate("--bug", bug, "--first", str(RARE.get(bug, 1)), "--seeds", "60")

    assert done.returncode == 1, f"{bug}: not found in 60 seeds"
    assert sum(counts(done)[3:]) > 0
    again = re.search(r"make simulate SEED=(\d+) ONLY=([\d,]+|none)", done.stdout)
    assert again is not None, done.stdout
    replayed = simulate("--bug", bug, "--seed", again[1], "--only", again[2]).stdout
    assert re.search(r"^  (lost|doubled|wrong): ", replayed, re.MULTILINE), replayed


def test_shrinking_leaves_what_it_takes_to_fail() -> None:
    plan = [Fault(at, kind, 1.0, False) for at, kind in enumerate(Kind)]

    fewest = shrunk(plan, lambda some: {1, 4} <= {each.at for each in some})

    assert [each.at for each in fewest] == [1, 4]
