"""Hostile content on a real installation, case after case; canaries must launch all the while.

    python -m tests.hostile.run --broker kafka --cases 2000 --seed 1
    python -m tests.hostile.run --seed 1 --case 17

Cases run in batches. After each batch the canaries are sent their events; when one of them is late, or a process has
ended or grown, the batch's cases are repeated one after another on a new installation to find the one.
The last line is the verdict: `stopped` counts cases after which a canary launched nothing, `slow` those after which one
took more than 5 s, `crashed` those after which a process ended, stayed beyond its memory limit or did not answer its
probe in time, `lost` canary events without a job or with two.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import structlog

from tests.hostile.case import Case
from tests.hostile.cases import case, cases, ways
from tests.hostile.trial import Batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("postgres", "kafka"), default="postgres")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="only this one of the seed")
    parser.add_argument("--way", choices=ways(), help="only cases of this way in")
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--skip", type=int, nargs="*", default=[], help="cases to leave out")
    parser.add_argument("--aloud", action="store_true", help="print every answer to a case")
    parser.add_argument("--after", type=int, default=-1, help="begin after this case")
    parser.add_argument("--together", action="store_true", help="do not look for the one case of a batch")
    parser.add_argument("--list", action="store_true", help="say what the cases are, and do nothing")
    parser.add_argument(
        "--logs", type=Path, help="a folder for what processes said before an installation was given up"
    )
    asked = parser.parse_args()
    some: Iterable[Case] = (
        cases(asked.seed, asked.cases, way=asked.way, after=asked.after)
        if asked.case is None
        else [case(asked.seed, asked.case, asked.way)]
    )
    some = (each for each in some if each.number not in asked.skip)
    if asked.list:
        say(*map(str, some))
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    batches = Batches(asked.broker, asked.batch, say, asked.logs, aloud=asked.aloud, together=asked.together)
    tally = asyncio.run(batches.run(some))
    say(*tally.words)
    took = time.monotonic() - began
    say(
        f"{tally.cases} cases in {took:.0f} s, {tally.cases / took:.1f} a second; seed {asked.seed}; {tally.measures()}"
    )
    say(tally.line())
    sys.exit(not tally.well)


def say(*lines: str) -> None:
    """Prints lines, at once."""
    for line in lines:
        sys.stdout.write(line.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
