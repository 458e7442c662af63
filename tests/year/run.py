"""A year of hourly data of three datasets in three zones, against one naive model: `make year SEED=1`.

    python -m tests.year.run --seed 1 --spark 20

First through a real `streamsched dev`, whose programs are `publish` (and Spark, for as many days as are asked for), and
then in virtual time, with quiet, expiry, lateness and what is to be there by 08:00. The last lines:

    dev: days 365 commits N jobs N differences 0
    simulation: days 365 commits N jobs N differences 0
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from datetime import date
from pathlib import Path

import structlog

from streamsched.store.server.embedded_server import start_server, stop_server
from streamsched.store.server.migrate import migrate
from tests.year import simulated_year, through_dev
from tests.year.drawn_year import Year, draw_year


def main() -> int:
    asked = _asked()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    year = draw_year(asked.seed, first=asked.first, days=asked.days, marked=asked.spark)
    lines: list[str] = []
    different = 0
    with tempfile.TemporaryDirectory(prefix="ss-year-", ignore_cleanup_errors=True) as folder:
        for name in asked.only or ("dev", "simulation"):
            jobs, count = _through_dev(Path(folder), year) if name == "dev" else _simulated(Path(folder), year)
            different += count
            commits = f"commits {len(year.writes)} jobs {jobs}"
            lines.append(f"{name}: days {len(year.days)} {commits} differences {count}")
            say(lines[-1])
    say("\n".join(lines))
    return 1 if different else 0


def _through_dev(folder: Path, year: Year) -> tuple[int, int]:
    outcome = through_dev.run(folder, year, show=say)
    return outcome.jobs, outcome.differences


def _simulated(folder: Path, year: Year) -> tuple[int, int]:
    server = start_server(folder / "simulation")
    try:
        migrate(server.url)
        outcome = asyncio.run(simulated_year.run(server.url, year, show=say))
    finally:
        stop_server(folder / "simulation")
    return outcome.jobs, outcome.differences


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make year")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--first", type=date.fromisoformat, default=date(2026, 1, 1))
    parser.add_argument("--spark", type=int, default=0, help="days whose jobs run on Spark")
    parser.add_argument("--only", choices=("dev", "simulation"), action="append", help="this part; can be repeated")
    return parser.parse_args()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
