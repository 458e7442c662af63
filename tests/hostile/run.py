"""Hostile content on a real installation, case after case; canaries must launch all the while.

Cases run in batches. After each batch the canaries are sent their events; when one of them is late, or a process has
ended or grown, the batch's cases are repeated one after another on a new installation to find the one.
`tests.hostile.trial` says what the words of the verdict mean. `--case 17` repeats one case.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tests.hostile.case import Case
from tests.hostile.cases import case, cases, ways
from tests.hostile.trial import Batches
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--case", type=int, help="only this one of the seed")
    parser.add_argument("--way", choices=ways(), help="only cases of this way in")
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--skip", type=int, nargs="*", default=[], help="cases to leave out")
    parser.add_argument("--aloud", action="store_true", help="print every answer to a case")
    parser.add_argument("--after", type=int, default=-1, help="begin after this case")
    parser.add_argument("--together", action="store_true", help="do not look for the one case of a batch")
    parser.add_argument("--list", action="store_true", help="say what the cases are, and do nothing")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    own = asked.own
    some = (
        cases(asked.seed, asked.n, way=own.way, after=own.after)
        if own.case is None
        else [case(asked.seed, own.case, own.way)]
    )
    chosen = (each for each in some if each.number not in own.skip)
    if own.list:
        say(*map(str, chosen))
        sys.exit()
    yield Site(lambda _: HostileTrial(asked, chosen))


class HostileTrial(Trial):
    """All cases of a run."""

    patience_s = 0.0

    def __init__(self, asked: Asked, some: Iterable[Case]) -> None:
        own = asked.own
        self._batches = Batches(asked.broker, own.batch, say, own.logs, aloud=own.aloud, together=own.together)
        self._some = some

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        await self._batches.run(self._some)
        yield

    async def judge(self) -> Judgement:
        return self._batches.tally.judgement

    def counts(self) -> Counts:
        return self._batches.tally.measures()


def say(*lines: str) -> None:
    """Prints lines, at once."""
    for line in lines:
        sys.stdout.write(line.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()
