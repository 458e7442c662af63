"""Attempts of jobs that are stopped in the middle of a write, replaced, and go on; or with `--crashes`, that are killed
after their commit, before their run has ended. With `--spark` the attempts write frames of real Spark, each in a
session of its process.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from tests.faults.judges.file_sets import Slept, judge_attempts
from tests.faults.writers.attempts import make_table, serve, settle, visible_rows
from tests.faults.writers.dataset import DatasetTrial
from tests.faults.writers.processes import DAYS
from tests.faults.writers.zombies import Sleeper, Worker, crash
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--crashes", action="store_true", help="first attempts are killed after their commit")
    parser.add_argument("--spark", action="store_true", help="attempts write frames of real Spark; not on `plain`")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    if asked.variant == "plain" and asked.own.spark:
        raise SystemExit("Spark does not know the scheme plain://, which is of this trial")
    yield Site(lambda _: AttemptTrial(asked))


class AttemptTrial(DatasetTrial):
    """The first attempt of each job sleeps or is killed, and the second writes the same."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked, spark=asked.own.spark)
        self._killed: bool = asked.own.crashes
        self._slept: list[Slept] = []
        self._rows: list[tuple[str, int]] = []

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        make_table(self.place)
        yield
        settle(self.place)
        rows = visible_rows(self.place)
        self._rows = list(zip(rows["job"].to_pylist(), rows["attempt"].to_pylist(), strict=True))

    async def faults(self) -> AsyncIterator[str]:
        jobs = [f"default.trial.job.1.{number}" for number in range(1, self.asked.n + 1)]
        with self.process(serve, self.place) as made:
            second = Worker(*made)
            for slept in (self._crashes if self._killed else self._sleeps)(jobs, second):
                self._slept.append(slept)
                yield "killed" if self._killed else "replaced" if slept.replaced else "slept"

    def _sleeps(self, jobs: list[str], second: Worker) -> Iterator[Slept]:
        sleeper = Sleeper(self.store, self.chance)
        with self.process(serve, self.place) as made:
            first = Worker(*made)
            for job in jobs:
                yield sleeper.trial(job, first, second)

    def _crashes(self, jobs: list[str], second: Worker) -> Iterator[Slept]:
        for job in jobs:
            with self.process(serve, self.place) as made:
                yield crash(job, self.chance, self.store, Worker(*made), second)

    async def judge(self) -> Judgement:
        return judge_attempts(self._slept, self._rows, await self.counted(self.asked.n * len(DAYS)))

    def counts(self) -> Counts:
        touched = sum(each.replaced or each.ends[0] == "killed" for each in self._slept)
        return {"jobs": self.asked.n, "killed" if self._killed else "replaced": touched}
