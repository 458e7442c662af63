"""Benchmark of a steady load and of none: statements, WAL, commits and CPU time, and what an idle `dev` takes.

    make bench NAME=load            python -m bench.load [--seconds 60] [--events 100] [--part load idle]

Load: one worker, one launcher and one API as processes, the log in the same PostgreSQL. `--events` events a second are
appended to the log one by one; five of a schedule's start a job, whose run publishes an event, executed by the launcher
itself: 20 runs/s. After a warm-up, `--seconds` are measured: `wal_bytes_per_event`, `commits_per_event` (of the whole
database, the appends of the events included), `cpu_us_per_job_…` of each process and of PostgreSQL, the server's
background included; `idle_…` of the same installation without the load are not taken off. Then for `--counted` seconds
PostgreSQL writes down every statement: `statements_per_run`, and the most frequent and dearest ones.

Idle: `streamsched dev` in an empty folder, for 60 seconds after it has settled: `idle_cpu_percent` of one core and
`idle_pss_mb`, PostgreSQL included.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import orjson
import psutil
import structlog
import uvloop

from bench.flood import custom_event, until_idle
from bench.installation import about
from bench.role_processes import SHARDS, RoleProcesses, role_processes
from bench.statements import counted_statements
from streamsched import App, event
from streamsched.codec import event as event_codec
from streamsched.domain.signals.home import home
from streamsched.log.topics import EVENTS
from streamsched.ports.broker import Outgoing
from streamsched.store.server.embedded_server import stop_server
from tests.faults.sites.footprint import ProcessUse, postgres_processes
from tests.support.dev_process import DevProcess

SCHEDULES, PER_JOB = 20, 5
TOP = 15
_TOTALS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
_WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


class Totals(NamedTuple):
    """Since the start of each."""

    wal: int
    commits: int
    runs: int
    cpu: Mapping[str, float]


async def totals(site: RoleProcesses) -> Totals:
    """Once sessions have reported their commits, which they do after at most a second."""
    await asyncio.sleep(1.5)
    pool = site.pool
    runs = await pool.fetchval("SELECT count(*) FROM runs WHERE state = 'COMPLETED'")
    cpu = {name: use.cpu_s for name, use in site.uses().items()}
    return Totals(int(await pool.fetchval(_WAL)), await pool.fetchval(_TOTALS), runs, cpu)


class Load:
    """Events one by one at a rate."""

    def __init__(self, site: RoleProcesses, rate: float) -> None:
        self._site = site
        self._rate = rate
        self._number = 0

    async def run(self, seconds: float) -> int:
        """Returns how many events were sent, when all of them and what came of them is done."""
        began, first = time.perf_counter(), self._number
        pending: set[asyncio.Task[None]] = set()
        for number in range(int(seconds * self._rate)):
            await asyncio.sleep(max(0.0, began + number / self._rate - time.perf_counter()))
            pending.add(task := asyncio.create_task(self._append()))
            task.add_done_callback(pending.discard)
        await asyncio.gather(*pending)
        await until_idle(self._site)
        return self._number - first

    async def _append(self) -> None:
        self._number += 1
        sent = custom_event(f"e{self._number}", "default", f"e{self._number % SCHEDULES}")
        record = Outgoing(EVENTS, home(sent.key, SHARDS), sent.key.encode(), event_codec.encode(sent))
        await self._site.broker.append([record])


async def measure_load(args: argparse.Namespace) -> dict[str, float]:
    async with role_processes("postgres", launches_per_second=0, retention="1d", verdicts_keep="7d") as site:
        app = App("load")
        done = app.publish("done", "done")
        for number in range(SCHEDULES):
            app.schedule(f"s{number}", done, when=event(f"e{number}", PER_JOB))
        await site.deploy(app)
        load = Load(site, args.events)
        await load.run(10.0)  # warms up
        before = await totals(site)
        began = time.perf_counter()
        events = await load.run(args.seconds)
        after = await totals(site)
        took, runs = time.perf_counter() - began, after.runs - before.runs
        result: dict[str, float] = {"events_per_s": round(events / took, 1), "runs_per_s": round(runs / took, 1)}
        result["wal_bytes_per_event"] = round((after.wal - before.wal) / events)
        result["commits_per_event"] = round((after.commits - before.commits) / events, 2)
        print(f"{events:,} events and {runs:,} runs in {took:.1f} s; CPU time in µs per job:")
        for name, seconds in after.cpu.items():
            result[f"cpu_us_per_job_{name}"] = round(1e6 * (seconds - before.cpu[name]) / runs)
            print(f"{result[f'cpu_us_per_job_{name}']:>10,}  {name}")
        before = await totals(site)
        async with counted_statements(site.there.database, site.there.folder / "pg") as statements:
            await load.run(args.counted)
            runs = await site.pool.fetchval("SELECT count(*) FROM runs WHERE state = 'COMPLETED'") - before.runs
        result["statements_per_run"] = round(statements.calls / runs, 1)
        print(f"{statements.calls:,} statements for {runs:,} runs")
        print("\n".join(statements.table(TOP, runs, "run")), flush=True)
        return result


def idle(seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="ss-idle-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        dev = DevProcess(Path(made))
        try:
            dev.start()
            time.sleep(10)
            before, began = _by_process(dev), time.perf_counter()
            time.sleep(seconds)
            after, took = _by_process(dev), time.perf_counter() - began
            for name, use in after.items():
                share = 100 * (use.cpu_s - before.get(name, ProcessUse()).cpu_s) / took
                print(f"idle {name:<24} {share:>6.2f} % of a core {use.pss / 1e6:>8.1f} MB (PSS)")
            cpu = sum(use.cpu_s for use in after.values()) - sum(before[each].cpu_s for each in after if each in before)
            whole = ProcessUse.of([*_dev_processes(dev), *postgres_processes(dev.state / "postgres")])
            return {
                "idle_cpu_percent": round(100 * cpu / took, 2),
                "idle_pss_mb": round(whole.pss / 1e6, 1),
                "idle_postgres_pss_mb": round(after["postgres"].pss / 1e6, 1),
            }
        finally:
            dev.close()
            stop_server(dev.state / "postgres")


def _dev_processes(dev: DevProcess) -> list[psutil.Process]:
    assert dev._process is not None
    root = psutil.Process(dev._process.pid)
    return [root, *root.children(recursive=True)]


def _by_process(dev: DevProcess) -> dict[str, ProcessUse]:
    found = {"dev": _dev_processes(dev), "postgres": postgres_processes(dev.state / "postgres")}
    return {name: ProcessUse.of(processes) for name, processes in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=float, default=100.0, help="a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the load, and of being idle")
    parser.add_argument("--counted", type=float, default=15.0, help="seconds in which statements are counted")
    parser.add_argument("--part", choices=("load", "idle"), nargs="*", default=("load", "idle"))
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(about(["asyncpg", "faust-streaming", "uvloop"]))
    print("command: python -m bench.load", *sys.argv[1:], flush=True)
    result: dict[str, float] = {}
    if "load" in args.part:
        result |= uvloop.run(measure_load(args))
    if "idle" in args.part:
        result |= idle(args.seconds)
    print("RESULT", orjson.dumps(result).decode())


if __name__ == "__main__":
    main()
