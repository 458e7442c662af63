"""A year of hourly data of three datasets in three zones, against one naive model.

First through a real `streamsched dev`, whose programs are `publish` (and Spark, for N days), and then in virtual time,
with quiet, expiry, lateness and what is to be there by 08:00.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Final

from streamsched.store.server.embedded_server import start_server, stop_server
from streamsched.store.server.migrate import migrate
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial
from tests.year import simulated_year, through_dev
from tests.year.differences import YearOutcome
from tests.year.drawn_year import Year, draw_year

PARTS: Final = ("dev", "simulation")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--first", type=date.fromisoformat, default=date(2026, 1, 1))
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; can be repeated")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    own = asked.own
    year = draw_year(asked.seed, first=own.first, days=own.days, marked=asked.n)
    parts = own.only or PARTS
    yield Site(lambda number: YearTrial(asked.folder, year, parts[number]), len(parts))


class YearTrial(Trial):
    """One part. Nothing befalls it."""

    patience_s = 0.0

    def __init__(self, folder: Path, year: Year, part: str) -> None:
        self._folder, self._year, self._part = folder, year, part
        self._outcome = YearOutcome(0, 0, ())

    async def faults(self) -> AsyncIterator[str]:
        play = self._through_dev if self._part == "dev" else self._simulated
        self._outcome = await play()
        yield self._part

    async def _through_dev(self) -> YearOutcome:
        return through_dev.run(self._folder, self._year, show=say)

    async def _simulated(self) -> YearOutcome:
        server = start_server(self._folder / "simulation")
        try:
            migrate(server.url)
            return await simulated_year.run(server.url, self._year, show=say)
        finally:
            stop_server(self._folder / "simulation")

    async def judge(self) -> Judgement:
        verdict = Judgement(("differences",))
        if self._outcome.differences:
            verdict.note("differences", self._outcome.words, self._outcome.differences)
        return verdict

    def counts(self) -> Counts:
        days, commits = len(self._year.days), len(self._year.writes)
        return {"days": days, "commits": commits, "jobs": self._outcome.jobs}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
