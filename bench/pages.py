"""Benchmark of the pages: how long the server needs for each, with many schedules and runs behind them.

    make bench NAME=pages           python -m bench.pages --schedules 10000 --runs 1000000 --rounds 20

The application answers in this process, on a real PostgreSQL that also has the log; a request goes through routing,
session, permissions, queries, rendering and the headers, without a socket. Behind the pages: `--schedules` schedules of
1,000 programs on 1,000 datasets, `--runs` ended runs with their jobs, of which one in fifty failed and a tenth has not
left for the history, 2,000 waiting jobs, 20,000 events with verdicts, 2,000 dead letters, 200 backfills.

Each page is requested `--rounds` times, after a first time that is shown apart: it prepares statements, and reads the
links of the catalog, which are read again only after a change of the catalog. `slowest_page_p95_ms`: the highest 95th
percentile of a page; `first_ms`: the slowest first request. Beside it are the highest median, and the highest CPU time
of a page, here and in PostgreSQL, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import asyncpg
import httpx
import orjson
import psutil
import structlog
import uvloop

from bench.installation import about, server
from streamsched.access.authentication import OpenAuthentication
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.config import Settings
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.triggers.trigger import Cron, Partitions, Trigger
from streamsched.log.topics import DEAD_LETTER, PARTITIONS, SIGNALS
from streamsched.ports.broker import Outgoing
from streamsched.roles.api import api_services, make_http
from streamsched.roles.services import Services, open_services
from streamsched.store.server.migrate import migrate
from streamsched.web.app import page_rules

DATASETS: Final = 1000
PROGRAMS: Final = 1000
WAITING: Final = 2000
EVENTS: Final = 20_000
LETTERS: Final = 2000
#: Runs of which one has not left for the history.
_KEPT: Final = 10
_DAYS: Final = 10
_WORK: Final = """
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, ended_at)
SELECT format('default.bench.s%s.1.%s', n % $1, $3 + n), format('default.bench.s%s', n % $1), 1, $3 + n,
    format('default.bench.p%s', n % 1000), 'LAUNCHED', at, at, '{}', at
FROM generate_series(1, $2::bigint) n, LATERAL (SELECT now() - n * interval '1 second') AS t (at);
"""
_RUNS: Final = """
INSERT INTO runs (id, job, attempt, program, executable, arguments, state, reason, created_at, started_at, ended_at,
    runner)
SELECT id || '.r1', id, 1, program, '{"type": "bash", "command": "true"}', '{}',
    CASE WHEN sequence % 50 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, '', created_at,
    created_at + interval '2 seconds', created_at + interval '90 seconds', 'h:1:1'
FROM jobs WHERE state = 'LAUNCHED';
"""
_WAITS: Final = """
INSERT INTO jobs (id, schedule, generation, sequence, program, state, reason, satisfied_at, created_at, ready,
    next_check_at)
SELECT format('default.bench.s%s.1.%s', n % $1, 10000000 + n), format('default.bench.s%s', n % $1), 1, 10000000 + n,
    format('default.bench.p%s', n % 1000), 'PENDING_CONSTRAINT', 'all 2 slots are taken', now(), now(), '{}', now()
FROM generate_series(1, $2::bigint) n;
"""
#: Rows of the history have the record of a row that has not left, with times and names of their own.
_HISTORY: Final = """
WITH given AS (
    SELECT n, format('default.bench.s%s', n % $1) AS schedule, format('default.bench.s%s.1.%s', n % $1, n) AS id,
        format('default.bench.p%s', n % 1000) AS program, now() - interval '1 day' - n * $3::interval AS at
    FROM generate_series(1, $2::bigint) n
), job AS (SELECT to_jsonb(j) AS record FROM jobs j WHERE state = 'LAUNCHED' LIMIT 1
), run AS (SELECT to_jsonb(r) AS record FROM runs r LIMIT 1
), jobs_gone AS (
    INSERT INTO jobs_history (done_at, id, schedule, state, created_at, runs, record)
    SELECT at, id, schedule, 'LAUNCHED', at, ARRAY[id || '.r1'], job.record || jsonb_build_object('id', id, 'schedule',
        schedule, 'sequence', n, 'program', program, 'created_at', at, 'satisfied_at', at, 'ended_at', at)
    FROM given, job
)
INSERT INTO runs_history (done_at, id, program, schedule, state, created_at, record)
SELECT at, id || '.r1', program, schedule, state, at, run.record || jsonb_build_object('id', id || '.r1',
    'job', id, 'program', program, 'created_at', at, 'started_at', at, 'ended_at', at, 'state', state)
FROM given, run, LATERAL (SELECT CASE WHEN n % 50 = 0 THEN 'FAILED' ELSE 'COMPLETED' END) AS s (state);
"""
_VERDICTS: Final = """
INSERT INTO verdicts (at, event, source, verdict, subject, generation, next_job, leaves, cells)
SELECT now(), 'e' || n, 'bench', 'counted', format('default.bench.s%s', n % $1), 1, 1, '{}', '{}'
FROM generate_series(1, $2::bigint) n
"""
_BACKFILLS: Final = """
INSERT INTO backfills (id, schedule, request, state, max_active, newest_first, items, skipped, active, created_at,
    changed_at, ended_at, fed_at)
SELECT format('default.bench.s%s.backfill-%s', n, n), format('default.bench.s%s', n), '{}', 'COMPLETED', 4, false, 10,
    0, 0, now() - n * interval '1 minute', now(), now(), now()
FROM generate_series(1, 200) n;
"""


def shapes() -> Iterator[Trigger]:
    for number in range(DATASETS):
        first, second = (DatasetRef("default", f"d{(number + step) % DATASETS}") for step in (0, 7))
        yield Cron("30 2 * * *", "Europe/Berlin") if number % 4 == 0 else Partitions(first, 7) & Partitions(second, 7)


async def fill(services: Services, schedules: int, runs: int) -> None:
    """Stores everything that is behind the pages."""
    pool, now = services.pool, datetime.now(UTC)
    program = Program(ProgramRef("default", "bench", "p"), BashJob("true"))
    definitions = [
        schedule_to_json(Schedule(ScheduleRef("default", "bench", "s"), program.ref, trigger)) for trigger in shapes()
    ]
    async with pool.acquire() as connection:
        run = connection.execute
        await run("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
        await run("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1) ON CONFLICT DO NOTHING", now)
        await run(
            "INSERT INTO programs SELECT 'default.bench.p' || n, 'default.bench',"
            " jsonb_set($1, '{name}', to_jsonb('p' || n)), $2, $2 FROM generate_series(0, $3::int - 1) n",
            *(program_to_json(program), now, PROGRAMS),
        )
        await run(
            "INSERT INTO schedules SELECT 'default.bench.s' || n, 'default.bench', 'default.bench.p' || n % 1000,"
            " jsonb_set(($3::jsonb[])[1 + n % cardinality($3)], '{name}', to_jsonb('s' || n)), 1, true, $2, $2"
            " FROM generate_series(0, $1::int - 1) n",
            *(schedules, now, definitions),
        )
        kept = runs // _KEPT
        first = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=_DAYS + 3)
        for parent in ("jobs_history", "runs_history", "verdicts"):
            for day in range(_DAYS + 4):
                at = first + timedelta(days=day)
                await run("SELECT make_part_v1($1, $2, $3)", parent, at, at + timedelta(days=1))
        await run(_WORK, schedules, kept, runs)
        await run(_RUNS, timeout=600)
        every = timedelta(days=_DAYS) / max(1, runs - kept)
        await run(_HISTORY, schedules, runs - kept, every, timeout=1200)
        await run(_WAITS, schedules, WAITING)
        await run(_VERDICTS, schedules, EVENTS)
        await run(_BACKFILLS)
        await run("ANALYZE", timeout=600)
        await run("CHECKPOINT", timeout=600)
    await services.broker.append(list(records(await services.broker.partitions(SIGNALS), now)))


def records(shards: int, now: datetime) -> Iterator[Outgoing]:
    """Events, of which each is in its public topic and at its home, and dead letters."""
    for number in range(EVENTS):
        dataset = DatasetRef("default", f"d{number % DATASETS}")
        key = f"date={datetime(2013, 1, 1, tzinfo=UTC) + timedelta(days=number // DATASETS):%Y-%m-%d}"
        event = Event(f"e{number}", "bench", now, PartitionsAdded(dataset, (Partition(key),), 1))
        at, value = signal_codec.encode(Occurred(event))
        yield Outgoing(SIGNALS, home(at, shards), at, value)
        yield Outgoing(PARTITIONS, home(at, shards), at, value)
    letter = b'{"topic":"partitions","partition":0,"offset":%d,"time_ms":%d,"path":"$","reason":"bad","key_b64":null,'
    for number in range(LETTERS):
        yield Outgoing(DEAD_LETTER, 0, None, letter % (number, 1_700_000_000_000 + number) + b'"value_b64":"e30="}')


def addresses(schedules: int, runs: int) -> dict[str, str]:
    """The pages by name. Parameters of paths stand for something that is there; some pages are read in more ways."""
    newest = f"default.bench.s{1 % schedules}.1.{runs + 1}"
    names = {
        "{schedule}": "default.bench.s1",
        "{job}": newest,
        "{run}": f"{newest}.r1",
        "{backfill}": "default.bench.s1.backfill-1",
        "{partition}": "0",
        "{offset}": "0",
        "{name}": "default.d1",
    }
    skipped = {"GET /ui/live", "GET /ui/graphs/{namespace}/{app}", "GET /ui/queues/{queue}"}
    found: dict[str, str] = {}
    for rule in page_rules():
        method, path = rule.split(" ")
        if method == "GET" and rule not in skipped:
            for name, value in names.items():
                path = path.replace(name, value)
            found[rule.removeprefix("GET ")] = path
    found["/ui/event"] += "?id=e17&source=bench"
    found["/ui/find"] += "?q=s99"
    found["/ui/schedules/{schedule}/backfill"] = "/ui/schedules/default.bench.s4/backfill?from=2026-01-01&to=2026-01-31"
    more = {
        "schedules by a part of the name": "/ui/schedules?q=s999",
        "schedules by a part that none has": "/ui/schedules?q=nothing",
        "schedules by state": "/ui/schedules?state=paused",
        "jobs that wait": "/ui/jobs?state=PENDING_CONSTRAINT",
        "runs that failed": "/ui/runs?state=FAILED",
        "runs that were lost, of which there are none": "/ui/runs?state=LOST",
        "runs that run": "/ui/runs?state=RUNNING&state=STARTING",
        "runs of a program that failed": "/ui/runs?state=FAILED&program=default.bench.p1",
        "runs of a namespace without any": "/ui/runs?namespace=other",
        "jobs of a namespace without any": "/ui/jobs?namespace=other",
        "runs of a program": "/ui/runs?program=default.bench.p1",
        "runs as a calendar": "/ui/runs?view=calendar",
        "runs of a program as a calendar": "/ui/runs?view=calendar&program=default.bench.p1",
        "a job of the history": "/ui/jobs/default.bench.s1.1.1",
        "events by a part of the text": "/ui/events?q=d999&depth=10000",
        "graph around a dataset": "/ui/graph?focus=dataset:default.d1",
    }
    return {**found, **more}


class PageTimes(NamedTuple):
    """Milliseconds that a page took: the first time, then each round; and of CPU time, of a round in the mean, here and
    in PostgreSQL.
    """

    first: float
    rounds: list[float]
    cpu: float

    @property
    def p95(self) -> float:
        return sorted(self.rounds)[max(0, -(-95 * len(self.rounds) // 100) - 1)]


def cpu_seconds() -> float:
    """CPU time of this process, and of those that serve its connections to PostgreSQL."""
    found = time.process_time()
    for each in psutil.process_iter(["cmdline"]):
        if " bench_pages " in " ".join(each.info["cmdline"] or ()) and "autovacuum" not in each.info["cmdline"][0]:
            with contextlib.suppress(psutil.Error):
                found += sum(each.cpu_times()[:2])
    return found


async def time_page(http: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    answer = await http.get(path)
    took = (time.perf_counter() - began) * 1000
    assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[-1000:]}"
    return took


async def measure(url: str, schedules: int, runs: int, rounds: int) -> dict[str, Any]:
    admin = await asyncpg.connect(url)
    await admin.execute("CREATE DATABASE bench_pages")
    await admin.close()
    database = url.replace("/postgres?", "/bench_pages?")
    await asyncio.to_thread(migrate, database)
    async with open_services(Settings.from_env({}, database_url=database)) as services:
        began = time.perf_counter()
        await fill(services, schedules, runs)
        print(f"filled in {time.perf_counter() - began:.0f} s\n")
        made = api_services(services)
        made = replace(made, access=replace(made.access, authentication=OpenAuthentication()))
        app = make_http(made, services.pool)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            found: dict[str, PageTimes] = {}
            for name, path in addresses(schedules, runs).items():
                first, cpu = await time_page(http, path), cpu_seconds()
                took = [await time_page(http, path) for _ in range(rounds)]
                found[name] = PageTimes(first, took, 1000 * (cpu_seconds() - cpu) / rounds)
    for name, each in sorted(found.items(), key=lambda pair: -pair[1].p95):
        half = statistics.median(each.rounds)
        print(f"{each.p95:8.1f} ms 95 %, half {half:.1f}, first {each.first:.1f}, CPU {each.cpu:.1f}: {name}")
    return {
        "slowest_page_p95_ms": round(max(each.p95 for each in found.values()), 1),
        "pages": len(found),
        "slowest_page_half_ms": round(max(statistics.median(each.rounds) for each in found.values()), 1),
        "slowest_page_cpu_ms": round(max(each.cpu for each in found.values()), 1),
        "first_ms": round(max(each.first for each in found.values()), 1),
        "schedules": schedules,
        "runs": runs,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--schedules", type=int, default=10_000)
    arguments.add_argument("--runs", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=20)
    args = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, server() as url:
        print(about(["asyncpg", "starlette", "jinja2"]))
        print(f"command: python -m bench.pages {' '.join(sys.argv[1:])}".rstrip())
        print(f"load {psutil.getloadavg()[0]:.1f} when it began")
        result = runner.run(measure(url, args.schedules, args.runs, args.rounds))
    print(f"\nRESULT {orjson.dumps(result).decode()}")


if __name__ == "__main__":
    main()
