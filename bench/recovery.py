"""Benchmark of a launcher that dies: how soon its inline runs have ended elsewhere, and how many requests are repeated.

    make bench NAME=recovery        python -m bench.recovery --runs 10000 --lease 6

All runs of an `http` program are in the hands of one launcher process, many more than a launcher takes by itself. It
executes them until `--after` requests have arrived, then it is killed with SIGKILL. A second launcher process lives
since before; it has nothing else to do. The server is in this process; it answers each request after 20 ms and counts
them by `Idempotency-Key`. Both launchers are made as in `roles.launcher`, with real leases.

- `settle_s`: seconds from the expiry of the lease of the killed launcher until the last run has ended; `from_kill_s`
  the same from the kill, which includes up to one lease time.
- `requeued_s`: seconds from that expiry until none of its runs is in its hands any more.
- `in_flight`: runs that the killed launcher had marked as started and of which no end was stored, read from PostgreSQL
  after the kill. These may have been on the wire.
- `repeated`: requests beyond the first of each job, as the server counted them.

A round that loses a run, or leaves one that did not complete, fails. All processes share the cores with PostgreSQL.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Final, cast

import asyncpg
import orjson
import structlog
import uvloop

from bench.installation import about, server
from bench.launch_queue import NoProcesses, fresh
from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.addresses import EVERYWHERE
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import HttpJob, Program, Schedule
from streamsched.domain.triggers.trigger import CustomEvent, leaf_id
from streamsched.launcher.inline_executor import InlineExecutor
from streamsched.launcher.loop import Launcher
from streamsched.launcher.recovery import Recovery
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.log.topics import LAUNCH
from streamsched.ports.clock import SystemClock
from streamsched.ports.intake import IntakeBatch, ReadyJobRow
from streamsched.ports.runner import RunnerId
from streamsched.process.http_client import HttpClient
from streamsched.process.memory import configure_memory
from streamsched.spark.processes import is_alive, this_process
from streamsched.store.connections import open_pool
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.jobs.intake import PostgresIntake
from streamsched.store.runs.launchers import LauncherLeases
from streamsched.store.runs.run_batch import RunBatch
from streamsched.store.runs.run_monitor import RunMonitorStore
from streamsched.store.server.migrate import migrate
from streamsched.store.server.notifier import PostgresNotifier

GO: Final = EventName("default", "go")
ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ANSWER_AFTER_S: Final = 0.02
KEY: Final = b"idempotency-key: "
LIVE: Final = "state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')"


class CountingServer(asyncio.Protocol):
    """One connection of the server; `seen` counts the requests of all by their key."""

    def __init__(self, seen: Counter[bytes]) -> None:
        self._seen = seen
        self._read = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = self._read[:end].lower() + b"\r\n"
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            if len(self._read) < end + 4 + length:
                return
            self._read = self._read[end + 4 + length :]
            self._seen[head.partition(KEY)[2].partition(b"\r\n")[0]] += 1
            asyncio.get_running_loop().call_later(ANSWER_AFTER_S, self._answer)

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(ANSWER)


class LocalProcesses(NoProcesses):
    """Knows which processes of this host live."""

    def is_alive(self, runner: RunnerId) -> bool | None:
        return is_alive(runner.pid, runner.start_ticks)


async def launcher(url: str, lease: timedelta, take: int) -> None:
    """One launcher process: claims `take` runs at once, prints `ready`, and executes after a line of input."""
    pool, notifier, clock = await open_pool(url, min_size=4, max_size=12), PostgresNotifier(url), SystemClock()
    inline = InlineExecutor(RunBatch(pool), this_process(), HttpClient(EVERYWHERE), clock)
    store, processes = RunMonitorStore(pool), LocalProcesses()
    recovery = Recovery(LauncherLeases(pool), processes, inline.runner, clock, ttl=lease, attempts=3)
    monitor = RunMonitor(store, processes, clock, RunTimeouts(), inline=inline)
    await recovery.renew()
    holding = asyncio.create_task(recovery.run())
    if take:
        retry_at = [clock.now() + timedelta(minutes=5)]
        taken = await store.claim_inline(
            clock.now(), retry_at=retry_at, jitter=0, limit=take, inline_by=str(inline.runner)
        )
        ids = [each.run for each in taken]
        inline.execute(await RunBatch(pool).claim(ids, runner=str(inline.runner), log_path=None, now=clock.now()))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    deciding = Launcher(DecisionStore(pool), monitor, notifier, clock, inline=inline)
    await asyncio.gather(holding, inline.run(), deciding.run())


@dataclass(frozen=True, slots=True)
class Round:
    """What one round measured; times in seconds."""

    settle_s: float
    from_kill_s: float
    requeued_s: float
    repeated: int
    in_flight: int
    left: int


@asynccontextmanager
async def process(url: str, lease: float, take: int) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.recovery", "--launcher", url, "--lease", str(lease), "--take", str(take)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        assert (await child.stdout.readline()).strip() == b"ready"
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def begin(child: asyncio.subprocess.Process) -> None:
    assert child.stdin is not None
    child.stdin.write(b"go\n")


async def measure(url: str, runs: int, lease: float, after: int) -> Round:
    """One round in a new database."""
    database = await fresh(url, "recovery")
    await asyncio.to_thread(migrate, database)
    pool = await open_pool(database)
    seen: Counter[bytes] = Counter()
    far = await asyncio.get_running_loop().create_server(lambda: CountingServer(seen), "127.0.0.1", 0, backlog=4096)
    await furnish(pool, runs, far.sockets[0].getsockname()[1])
    await decide_all(pool, database)
    async with process(database, lease, runs) as doomed, process(database, lease, 0) as survivor:
        begin(survivor)
        await asyncio.sleep(2 * lease)  # until it has held its lease long enough to find another expired
        begin(doomed)
        while sum(seen.values()) < after:
            await asyncio.sleep(0.001)
        doomed.kill()
        await doomed.wait()
        killed = time.perf_counter()
        [dead] = [
            row["runner"] for row in await pool.fetch("SELECT runner FROM launchers") if f":{doomed.pid}:" in row[0]
        ]
        held = f"FROM runs WHERE runner = $1 AND {LIVE}"
        left, in_flight = await pool.fetchrow(
            f"SELECT count(*), count(*) FILTER (WHERE state = 'RUNNING') {held}", dead
        )
        expires_in = await pool.fetchval(
            "SELECT extract(epoch FROM expires_at - now())::float8 FROM launchers WHERE runner = $1", dead
        )
        expired = time.perf_counter() + expires_in
        async with asyncio.timeout(300):
            while await pool.fetchval(f"SELECT EXISTS (SELECT {held})", dead):
                await asyncio.sleep(0.01)
            requeued = time.perf_counter()
            while await pool.fetchval(f"SELECT EXISTS (SELECT FROM runs WHERE {LIVE})"):
                await asyncio.sleep(0.01)
        ended = time.perf_counter()
    far.close()
    completed = await pool.fetchval("SELECT count(DISTINCT job) FROM runs WHERE state = 'COMPLETED'")
    lost = await pool.fetchval("SELECT count(*) FROM runs WHERE state = 'LOST'")
    await pool.close()
    assert (completed, lost, len(seen)) == (runs, in_flight, runs), (completed, lost, len(seen))
    repeated = sum(seen.values()) - len(seen)
    return Round(ended - expired, ended - killed, requeued - expired, repeated, in_flight, left)


async def furnish(pool: asyncpg.Pool, runs: int, port: int) -> None:
    """A program that sends a request, its schedule, and ready jobs as the intake stores them."""
    now, leaf = datetime.now(UTC), CustomEvent(GO)
    program = Program(ProgramRef("default", "bench", "p"), HttpJob(f"http://127.0.0.1:{port}/"))
    known = Schedule(ScheduleRef("default", "bench", "s"), program.ref, leaf, overlap=Overlap.QUEUE)
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1)", now)
    await pool.execute("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1)", now)
    await pool.execute(
        "INSERT INTO programs VALUES ($1, 'default.bench', $2, $3, $3)",
        *(str(program.ref), program_to_json(program), now),
    )
    await pool.execute(
        "INSERT INTO schedules VALUES ($1, 'default.bench', $2, $3, 1, true, $4, $4)",
        *(str(known.ref), str(program.ref), schedule_to_json(known), now),
    )
    readies: list[ReadyJobRow] = []
    for sequence in range(1, runs + 1):
        event = Event(str(sequence), "bench", now, CustomHappened(GO))
        ready = ReadyJob(known.ref, 1, sequence, now, (Contribution(leaf_id(leaf), 1, (event,)),))
        readies.append(ReadyJobRow(ready.id, str(known.ref), 1, sequence, now, launch.encode(ready).decode()))
    intake = PostgresIntake(pool)
    at = (await intake.positions(LAUNCH, 1))[0]
    taken = await intake.take(LAUNCH, [IntakeBatch(0, at, at + len(readies), readies)], now=now)
    assert taken.stored == len(readies)


async def decide_all(pool: asyncpg.Pool, url: str) -> None:
    """Decides all jobs; their runs are PENDING."""
    notifier, clock = PostgresNotifier(url), SystemClock()
    monitor = RunMonitor(RunMonitorStore(pool), NoProcesses(), clock, RunTimeouts())
    deciding = Launcher(DecisionStore(pool), monitor, notifier, clock)
    while await deciding.run_once():
        pass
    await notifier.close()
    await pool.execute("VACUUM ANALYZE")


async def compare(url: str, runs: int, rounds: int, lease: float, after: int) -> dict[str, float]:
    found: list[Round] = []
    for number in range(1, rounds + 1):
        found.append(await measure(url, runs, lease, after))
        print(f"round {number}  " + "  ".join(f"{name} {value:,.6g}" for name, value in asdict(found[-1]).items()))
    return {each.name: statistics.median(getattr(one, each.name) for one in found) for each in fields(Round)}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; the last line is RESULT with the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--lease", type=float, default=6.0, help="seconds; the default of the product")
    parser.add_argument("--after", type=int, default=1000, help="requests that arrive before the kill")
    parser.add_argument("--launcher", metavar="URL", help="run one launcher process (internal)")
    parser.add_argument("--take", type=int, default=0, help="runs it claims at once (internal)")
    args = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.WARNING)
    configure_memory()
    if args.launcher:
        uvloop.run(launcher(args.launcher, timedelta(seconds=args.lease), args.take))
        return
    if not 0 < args.after < args.runs:
        parser.error("--after must be between 1 and --runs")
    print(f"machine  {about(['streamsched', 'httpx', 'asyncpg'])}")
    print(f"command  python -m bench.recovery --runs {args.runs} --rounds {args.rounds} --lease {args.lease:g}\n")
    with server() as url:
        results = uvloop.run(compare(url, args.runs, args.rounds, args.lease, args.after))
    print("RESULT " + orjson.dumps({name: round(value, 2) for name, value in results.items()}).decode())


if __name__ == "__main__":
    main()
