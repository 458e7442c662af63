"""A whole installation killed and paused under load, trial after trial, and judged by an oracle.

    python -m tests.faults.run --broker kafka --trials 20 --seed 1

Two workers, two launchers (relay, intake, timers), the API and two emitters, as processes; each trial deploys an app of
its own on them, changes it while events flow, and deals them a fault or two. The last line is the verdict.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import asyncpg
import httpx
import structlog

from streamsched.log.drivers import open_broker
from streamsched.log.topics import topic_specs
from streamsched.store.connections import open_pool
from tests.faults.fault import Fault, RandomFaults, known
from tests.faults.judges.jobs import judge_rows
from tests.faults.judges.log import AWAY_S, Log
from tests.faults.processes.bugged import BUGS
from tests.faults.processes.emitters import Emitters
from tests.faults.processes.installation import Processes
from tests.faults.sites.counting_server import CountingServer
from tests.faults.sites.installation_site import SHARDS, InstallationSite, temporary_site
from tests.faults.trial import EVENTS, SCHEDULES, Played, Trial
from tests.judgement import Judgement
from tests.simulation.log import Bug

#: In the dead letters of events that would have opened too many correlation keys.
REFUSED = "correlation keys may be open"
_IN_HANDS = "SELECT count(*) FROM runs WHERE runner LIKE $1 AND state = 'RUNNING' AND executable ->> 'type' = 'http'"


@dataclass(slots=True)
class Tally:
    """What came of all trials."""

    faults: RandomFaults
    judged: Judgement = field(default_factory=Judgement)
    waits: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def well(self) -> bool:
        return self.judged.clean

    def add(self, played: Played) -> None:
        self.judged.add(played.verdict)
        self.waits.append(played.longest_wait_s)
        self.kinds.update(played.requests.kinds)
        self.kinds.update({"calls": played.calls, "repeated": played.repeated, "in flight": played.in_flight})

    def line(self) -> str:
        """The verdict. Recovery: how long an event waited at most in a trial. Requests: of `http` programs, those that
        were sent again, and those that may have left when a launcher was killed.
        """
        waits, kinds = sorted(self.waits) or [0.0], self.kinds
        return (
            f"trials {len(self.waits)} kills {self.faults.kills} stops {self.faults.stops} "
            f"lost {self.judged.lost} doubled {self.judged.doubled} wrong {self.judged.wrong} "
            f"recovery p50 {waits[len(waits) // 2]:.1f} s max {waits[-1]:.1f} s "
            f"submissions {kinds['submissions']} reruns {kinds['reruns']} "
            f"backfills {kinds['backfills']} at once {kinds['at once']} "
            f"requests {kinds['calls']} repeated {kinds['repeated']} in flight at kills {kinds['in flight']}"
        )


async def run(
    site: InstallationSite,
    *,
    trials: int,
    seed: int,
    of: Sequence[Fault] = (),
    bug: Bug | None = None,
    schedules: int = SCHEDULES,
    events: int = EVENTS,
    minutes: float = float("inf"),
) -> tuple[str, bool]:
    """The last line, and whether all is well. No trial begins after so many minutes; with a bug, none after one that
    is not well.
    """
    until = time.monotonic() + 60 * minutes
    broker, pool = await open_broker(site.log), await open_pool(site.database)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=7)))
    processes = Processes(site, Emitters(site.api, site.log, site.folder), bug, partial(in_hands, pool))
    pace = random.Random(seed)
    called = CountingServer(lambda: pace.uniform(0.05, 1.5))
    faults = RandomFaults(random.Random(seed), tuple(of) or known(kafka=site.cluster is not None))
    tally, log = Tally(faults), Log(broker)
    with called.on_thread() as url:
        async with httpx.AsyncClient(base_url=site.api) as client:
            trial = Trial(processes, log, pool, client, faults, called, url, schedules, events)
            try:
                await processes.start()
                for number in range(trials):
                    began = time.monotonic()
                    played = await trial.play(number, seed)
                    tally.add(played)
                    _say(_reported(number, played, time.monotonic() - began), *played.verdict.words)
                    if (bug is not None and not tally.well) or time.monotonic() > until:
                        break
                await _closing(pool, log, site, tally.judged)
            finally:
                await processes.stop()
                await broker.close()
                await pool.close()
    if processes.unbidden:
        _say(f"{processes.unbidden} processes ended by themselves and were started again")
    return tally.line(), tally.well


async def _closing(pool: asyncpg.Pool, log: Log, site: InstallationSite, into: Judgement) -> None:
    """Of all trials together: every launch is one row, there are no others, and no run started twice."""
    await log.look(quiet_s=0.5)
    await judge_rows(pool, log.launched, into)
    for run_, times in Counter(site.started_runs()).items():
        if times > 1:
            into.double(f"run {run_} started {times} times")
    for letter in log.letters:
        if REFUSED not in letter:  # an event that a schedule refused, as its definition wants; the trials judge which
            into.spoil(f"a dead letter: {letter}")


async def in_hands(pool: asyncpg.Pool, pid: int) -> int:
    """Runs whose request may have left this process of a launcher, and of which no end is stored. Waits while the
    database is away.
    """
    async with asyncio.timeout(AWAY_S):
        while True:
            try:
                return await pool.fetchval(_IN_HANDS, f"%:{pid}:%")
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.1)


def _reported(number: int, played: Played, took: float) -> str:
    verdict = played.verdict
    return (
        f"trial {number} {', '.join(played.met)}: {len(played.traffic.emitted)} events, {played.jobs} jobs, "
        f"{len(played.user.returned) - len(played.user.generated.schedules)} changes, "
        f"{', '.join(f'{times} {kind}' for kind, times in sorted(played.requests.kinds.items()))}, "
        f"{', '.join(f'{times} pauses {mode}' for mode, times in sorted(played.user.modes.items()))}, "
        f"{len(played.user.waited)} jobs held, "
        f"{played.calls} requests, {played.repeated} repeated, {played.in_flight} in flight at kills, "
        f"longest wait {played.longest_wait_s:.1f} s, took {took:.0f} s ({played.emitting_s:.0f} s of events), "
        f"lost {verdict.lost} doubled {verdict.doubled} wrong {verdict.wrong}"
    )


def _say(*lines: str) -> None:
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("postgres", "kafka"), default="postgres")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="of our Kafka; one at a time is killed")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no trial begins after that long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--events", type=int, default=EVENTS, help="of each trial, at least")
    parser.add_argument("--fault", nargs="*", default=[], help="only these, such as 'worker late'")
    parser.add_argument("--bug", choices=[each.name.lower().replace("_", "-") for each in BUGS])
    parser.add_argument("--logs", type=Path, help="a new folder for what the processes said")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell in the background ignores the first
        signal.signal(number, signal.default_int_handler)
    of = [each for each in known(kafka=True) if str(each) in asked.fault]
    bug = None if asked.bug is None else Bug[asked.bug.upper().replace("-", "_")]
    with temporary_site(asked.broker, nodes=asked.nodes) as there:
        try:
            line, well = asyncio.run(
                run(
                    there,
                    trials=asked.trials,
                    seed=asked.seed,
                    of=of,
                    bug=bug,
                    schedules=asked.schedules,
                    events=asked.events,
                    minutes=asked.minutes,
                )
            )
        finally:
            if asked.logs is not None:
                shutil.copytree(
                    there.folder, asked.logs, ignore=shutil.ignore_patterns("pg", "kafka", "data", "*.sock")
                )
    _say(line)
    sys.exit(not well)


if __name__ == "__main__":
    main()
