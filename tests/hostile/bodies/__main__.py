"""The whole trial: see `trial`."""

from __future__ import annotations

import argparse
import asyncio
import sys

import structlog

from tests.hostile.bodies.trial import trial
from tests.hostile.bodies.worst_bodies import worst_requests
from tests.support.served_api import temporary_database


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--route", default="", help="only routes whose name contains it")
    parser.add_argument("--every", type=int, default=1, help="only every so many requests")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    chosen = [each for each in worst_requests() if asked.route in each.route][:: asked.every]
    with temporary_database() as database:
        outcomes = asyncio.run(trial(database, chosen))
    bad = [each.route for each in outcomes if not each.well]
    sys.stdout.write(f"{len(outcomes)} routes, {sum(each.requests for each in outcomes)} requests, bad: {bad}\n")
    return 1 if bad or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
