"""Benchmark of tasks: registration, delivery of many that are due at once, a million that wait, takeover, and a week of
downtime; beside a loop with SKIP LOCKED and APScheduler, in one run on one PostgreSQL.

    make bench NAME=tasks        python -m bench.tasks --rounds 3

- Registration: one task a request, `--clients` requests at a time: over gRPC, by Dapr's API as its SDK calls it
  (`register_per_s`, `register_p99_ms`) and by its scheduler's (`register_sidecar_…`), over our HTTP API
  (`register_http_…`), and without any (`register_direct_…`).
- Delivery: `--burst` tasks of a fifth as many lanes become due at one instant; each is a POST to a server here, by 1
  and 2 owner processes, and by `--owners`. `acked_per_s`: until the last end is in the history. Lateness is from the
  due time to the acknowledgement; most of it is waiting for the tasks before. `acked_worker_per_s`: to a worker in the
  process of the owner, which acknowledges at once: what the kernel itself costs.
- Raw: processes take 500 due rows with FOR UPDATE SKIP LOCKED, deliver them at the same time by the same HTTP client to
  the same server, and delete them, with as many processes as owners: no lanes, retries, history or takeover.
  `raw_bare_per_s`: the same without delivery.
- Takeover: one of two owners is killed when half of the burst is delivered; until the other has started tasks in each
  of its partitions. The lease is 3 s.
- Held: memory and CPU of an owner with `--held` tasks due tomorrow, each in its own lane.
- Week (`--week N`): N tasks that became due over seven days without an owner, in a tenth as many lanes, and meanwhile
  tasks of new lanes, whose lateness is printed.
- Dapr: its own scheduler, one process on the same disk, by the same client as ours: `dapr_register_per_s` beside
  `register_sidecar_per_s`; `dapr_acked_per_s` beside `acked_sidecar_per_s`: `--dapr-burst` jobs due at one instant,
  until the client has acknowledged the last. Null unless it was built (`python -m compose.dapr.programs scheduler`) and
  this is root on Linux: it listens on all addresses, so everything then runs in a network namespace.
Compare numbers of one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NamedTuple, TypeVar

import orjson
import psutil
import structlog
import uvloop

from bench.dapr_tasks import (
    acknowledged_to_dapr,
    acknowledged_to_sidecar,
    register_as_client,
    register_as_sidecar,
    register_with_dapr,
)
from bench.installation import Installation, about, fresh_installation, server
from bench.raw_tasks import raw
from bench.task_processes import QUEUE, far_server, owners_ready, run_process
from bench.task_registration import DATA, Paced, fill, register_directly, register_over_http, set_queue
from bench.timers import apscheduler, show, soon
from compose.dapr.namespace import enter_namespace
from compose.dapr.programs import programs
from streamsched.domain.tasks.queue import HttpTarget, Target, WorkerTarget
from streamsched.domain.tasks.task import TaskRequest
from streamsched.store.tasks.registry import TaskRegistry

LEASE_S: Final = 3.0
WEEK: Final = timedelta(days=7)

_T = TypeVar("_T")


class Delivered(NamedTuple):
    """A burst: acknowledged per second, and how late (s)."""

    per_s: float
    late_p50_s: float
    late_p99_s: float
    takeover_s: float = 0.0


async def burst(site: Installation, count: int, target: Target, owners: int, *, kill: bool = False) -> Delivered:
    """That many tasks due at one instant. `kill`: one of the owners, when half are delivered."""
    await set_queue(site, target)
    kind = "http" if isinstance(target, HttpTarget) else "worker"
    for margin in (3 + count / 5000, 10 + count / 1500, 60 + count / 300):
        due = soon(margin)
        await fill(site, count, lambda _, due=due: due)
        if due > datetime.now(UTC) + timedelta(seconds=2):
            break
        await site.pool.execute("TRUNCATE tasks, task_lanes")
    else:
        raise SystemExit(f"{count} tasks cannot be registered in {margin:.0f} s")
    await site.pool.execute("VACUUM ANALYZE tasks, task_lanes")
    with ExitStack() as stack:
        processes = [stack.enter_context(run_process("owner", site.url, kind, LEASE_S)) for _ in range(owners)]
        await owners_ready(site.pool, owners)
        await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
        takeover_s = await taken_over(site, count, processes[0]) if kill else 0.0
        await until_delivered(site, count)
    last, p50, p99 = await site.pool.fetchrow(  # type: ignore[misc]
        "SELECT max(at), percentile_disc(0.5) WITHIN GROUP (ORDER BY at - due_at),"
        " percentile_disc(0.99) WITHIN GROUP (ORDER BY at - due_at) FROM tasks_history"
    )
    return Delivered(count / (last - due).total_seconds(), p50.total_seconds(), p99.total_seconds(), takeover_s)


async def until_delivered(site: Installation, count: int) -> None:
    """Returns when no task is left.

    Raises:
        SystemExit: some were lost or delivered twice.
    """
    deadline = time.monotonic() + 60 + count / 200
    while await site.pool.fetchval("SELECT EXISTS (SELECT FROM tasks WHERE queue = $1)", QUEUE):
        if time.monotonic() > deadline:
            raise SystemExit(f"{await site.pool.fetchval('SELECT count(*) FROM tasks')} tasks are left")
        await asyncio.sleep(0.1)
    row = await site.pool.fetchrow("SELECT count(*) AS ends, count(DISTINCT id) AS tasks FROM tasks_history")
    if tuple(row) != (count, count):  # type: ignore[arg-type]
        raise SystemExit(f"{count} tasks have ended as {row}")


async def taken_over(site: Installation, count: int, victim: subprocess.Popen[bytes]) -> float:
    """Kills an owner when half are delivered; seconds until tasks have been started in each of its partitions that
    has some left.

    Raises:
        SystemExit: half are not delivered in time, or a partition is without an owner after a minute.
    """
    deadline = time.monotonic() + 60 + count / 200
    while (left := await site.pool.fetchval("SELECT count(*) FROM tasks")) > count / 2:
        if time.monotonic() > deadline:
            raise SystemExit(f"{left} tasks are left")
        await asyncio.sleep(0.05)
    theirs = [
        int(row[0].removeprefix("tasks-"))
        for row in await site.pool.fetch("SELECT name FROM leases WHERE owner = $1", f"bench-{victim.pid}")
    ]
    victim.kill()
    killed, began = await site.pool.fetchval("SELECT clock_timestamp()"), time.perf_counter()
    idle = (
        "SELECT partition FROM task_lanes WHERE partition = ANY($1::int[]) GROUP BY partition"
        " HAVING bool_and(started_at IS NULL OR started_at <= $2)"
    )
    while theirs := [row[0] for row in await site.pool.fetch(idle, theirs, killed)]:
        if time.perf_counter() - began > 60:
            raise SystemExit(f"partitions {theirs} have no owner a minute after theirs was killed")
        await asyncio.sleep(0.02)
    return time.perf_counter() - began


class Idle(NamedTuple):
    rss_mb: float
    cpu_percent: float


async def measure_idle(site: Installation, count: int) -> Idle:
    """Memory and CPU of an owner with that many tasks, none of which is due."""
    await set_queue(site, WorkerTarget())
    await fill(site, 1, lambda _: datetime.now(UTC) + timedelta(days=1))
    for start in range(1, count, 100_000):
        numbers = (start, min(start + 100_000, count) - 1)
        await site.pool.execute(
            "INSERT INTO task_lanes (id, partition, queue, name, ready_at) SELECT md5(n::text), n % 16, $3, n::text,"
            " now() + interval '1 day' + n * interval '1 ms' FROM generate_series($1::int, $2::int) n",
            *(*numbers, QUEUE),
        )
        await site.pool.execute(
            "INSERT INTO tasks (id, lane_id, queue, lane, key, state, due_at, planned_at, next_at, generation, data,"
            " content_type, created_at)"
            " SELECT md5(n::text), md5(n::text), $3, n::text, 'k', 'WAITING', at, at, at, n, $4, '', now()"
            " FROM generate_series($1::int, $2::int) n"
            " CROSS JOIN LATERAL (SELECT now() + interval '1 day' + n * interval '1 ms' AS at) AS due",
            *(*numbers, QUEUE, DATA),
        )
    await site.pool.execute("VACUUM ANALYZE tasks, task_lanes")
    with run_process("owner", site.url, "worker", LEASE_S) as process:
        await owners_ready(site.pool, 1)
        of = psutil.Process(process.pid)
        await asyncio.sleep(3)
        before, began = of.cpu_times(), time.perf_counter()
        await asyncio.sleep(10)
        after, took = of.cpu_times(), time.perf_counter() - began
        used = (after.user + after.system) - (before.user + before.system)
        return Idle(of.memory_info().rss / 1e6, 100 * used / took)


class CaughtUp(NamedTuple):
    """After downtime: overdue tasks acknowledged per second, and the lateness of new lanes meanwhile."""

    per_s: float
    fresh_p50_s: float
    fresh_p99_s: float
    fresh: int


async def week(site: Installation, count: int, url: str) -> CaughtUp:
    """Tasks that became due while no owner ran, and new lanes while an owner catches up."""
    await set_queue(site, HttpTarget(url))
    now = datetime.now(UTC)
    await fill(site, count, lambda n: now - WEEK + (n * 7919 % count) * WEEK / count, in_a_lane=10)
    await site.pool.execute("VACUUM ANALYZE tasks, task_lanes")
    registry, fresh = TaskRegistry(site.pool), 0
    with run_process("owner", site.url, "http", LEASE_S):
        await owners_ready(site.pool, 1)
        began = datetime.now(UTC)
        deadline = time.monotonic() + 60 + count / 200
        overdue = "SELECT EXISTS (SELECT FROM tasks WHERE queue = $1 AND due_at < $2)"
        while await site.pool.fetchval(overdue, QUEUE, began - timedelta(seconds=5)):
            requests = [TaskRequest(key=f"new{fresh + n}", data=DATA) for n in range(10)]
            await registry.register(QUEUE, requests, now=datetime.now(UTC))
            fresh += 10
            await asyncio.sleep(0.2)
            if time.monotonic() > deadline:
                raise SystemExit(f"{await site.pool.fetchval('SELECT count(*) FROM tasks')} tasks are left")
        ended = datetime.now(UTC)
        await until_delivered(site, count + fresh)
    wrong = await site.pool.fetchval(
        "SELECT count(*) FROM (SELECT (due_at, key) < lag((due_at, key)) OVER (PARTITION BY lane ORDER BY at) AS wrong"
        " FROM (SELECT due_at, key, lane, at FROM tasks_history) h) AS pairs WHERE wrong"
    )
    if wrong:
        raise SystemExit(f"{wrong} tasks were delivered before one of their lane that goes first")
    p50, p99 = await site.pool.fetchrow(  # type: ignore[misc]
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY at - due_at),"
        " percentile_disc(0.99) WITHIN GROUP (ORDER BY at - due_at) FROM tasks_history WHERE key LIKE 'new%'"
    )
    return CaughtUp(count / (ended - began).total_seconds(), p50.total_seconds(), p99.total_seconds(), fresh)


async def repeat(url: str, rounds: int, measure: Callable[[Installation], Awaitable[_T]]) -> list[_T]:
    """Each round in a new installation."""
    found: list[_T] = []
    for _ in range(rounds):
        async with fresh_installation(url) as site:
            found.append(await measure(site))
    return found


def show_bursts(name: str, found: Sequence[Delivered]) -> tuple[float, float]:
    """Prints rate and lateness; returns the medians of the rate and of the 99 % quantile of the lateness."""
    rate = show(f"{name}: acknowledged", [each.per_s for each in found], "tasks/s")
    show(f"{name}: late, half", [each.late_p50_s for each in found], "s")
    return rate, show(f"{name}: late, 99 %", [each.late_p99_s for each in found], "s")


def show_paced(prefix: str, name: str, found: Sequence[Paced]) -> dict[str, float | None]:
    """Prints rate and duration; returns their medians."""
    return {
        f"{prefix}_per_s": show(f"registered {name}", [each.per_s for each in found], "tasks/s"),
        f"{prefix}_p50_ms": show(f"registration {name}: half", [each.p50_ms for each in found], "ms"),
        f"{prefix}_p99_ms": show(f"registration {name}: 99 %", [each.p99_ms for each in found], "ms"),
    }


async def beside_dapr(url: str, args: argparse.Namespace) -> dict[str, float | None]:
    """Dapr's own scheduler, and a launcher in its place."""
    burst, clients = args.dapr_burst, args.clients
    ours = await repeat(url, args.rounds, partial(acknowledged_to_sidecar, count=burst, clients=clients))
    result: dict[str, float | None] = {
        "acked_sidecar_per_s": show(f"{burst:,} due, one sidecar: acknowledged", ours, "jobs/s"),
        "dapr_register_per_s": None,
        "dapr_acked_per_s": None,
    }
    if not args.alone:
        print("  Dapr's scheduler: not built, or not root on Linux")
        return result
    found = [await register_with_dapr(args.registered, clients) for _ in range(args.rounds)]
    result |= show_paced("dapr_register", "with Dapr's scheduler", found)
    theirs = [await acknowledged_to_dapr(burst, clients) for _ in range(args.rounds)]
    result["dapr_acked_per_s"] = show(f"{burst:,} due, Dapr's scheduler: acknowledged", theirs, "jobs/s")
    return result


async def measure(url: str, args: argparse.Namespace) -> dict[str, float | None]:
    rounds, count = args.rounds, args.burst
    result: dict[str, float | None] = {}
    for prefix, name, register in (
        ("register", "by Dapr's API over gRPC", register_as_client),
        ("register_sidecar", "by its scheduler's API over gRPC", register_as_sidecar),
        ("register_http", "over HTTP", register_over_http),
        ("register_direct", "directly", register_directly),
    ):
        found = await repeat(url, rounds, partial(register, count=args.registered, clients=args.clients))
        result |= show_paced(prefix, name, found)
    result |= await beside_dapr(url, args)
    with far_server() as far:
        http = HttpTarget(far)
        one = await repeat(url, rounds, partial(burst, count=count, target=http, owners=1))
        result["acked_per_s"], result["late_p99_s"] = show_bursts(f"{count:,} due, HTTP, 1 owner", one)
        result["late_p50_s"] = statistics.median(each.late_p50_s for each in one)
        two = await repeat(url, rounds, partial(burst, count=count, target=http, owners=2))
        result["acked_2_per_s"], _ = show_bursts(f"{count:,} due, HTTP, 2 owners", two)
        for owners in args.owners:
            found = await repeat(url, rounds, partial(burst, count=count, target=http, owners=owners))
            result[f"acked_{owners}_per_s"], _ = show_bursts(f"{count:,} due, HTTP, {owners} owners", found)
        worker = await repeat(url, rounds, partial(burst, count=count, target=WorkerTarget(), owners=1))
        result["acked_worker_per_s"], _ = show_bursts(f"{count:,} due, own worker, 1 owner", worker)
        killed = await repeat(url, 1, partial(burst, count=count, target=http, owners=2, kill=True))
        result["takeover_s"] = show("takeover with half of them due", [each.takeover_s for each in killed], "s")
        result["raw_per_s"] = show(
            "raw SKIP LOCKED loop, the same HTTP",
            await repeat(url, rounds, lambda site: raw(site.url, count, DATA, far)),
            "tasks/s",
        )
        if args.week:
            caught = (await repeat(url, 1, partial(week, count=args.week, url=far)))[0]
            result["catch_up_per_s"] = show(f"a week of downtime, {args.week:,} overdue", [caught.per_s], "tasks/s")
            result["fresh_late_p50_s"] = show(f"{caught.fresh} of new lanes meanwhile: half", [caught.fresh_p50_s], "s")
            result["fresh_late_p99_s"] = show("of new lanes meanwhile: 99 %", [caught.fresh_p99_s], "s")
    result["raw_bare_per_s"] = show(
        "raw SKIP LOCKED loop, no delivery",
        await repeat(url, rounds, lambda site: raw(site.url, count, DATA, None)),
        "tasks/s",
    )
    others: list[float] = []
    for _ in range(rounds):
        async with fresh_installation(url) as site:
            others.append(await asyncio.to_thread(apscheduler, site.url, args.others))
    result["apscheduler_per_s"] = show(f"APScheduler, {args.others:,} due at once", others, "jobs/s")
    resting = (await repeat(url, 1, partial(measure_idle, count=args.held)))[0]
    result["held_rss_mb"] = show(f"memory beside {args.held:,} tasks", [resting.rss_mb], "MB")
    result["held_cpu_percent"] = show("CPU beside them", [resting.cpu_percent], "%")
    return {name: None if value is None else round(value, 3) for name, value in result.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--registered", type=int, default=5000)
    arguments.add_argument("--clients", type=int, default=32, help="registrations at a time")
    arguments.add_argument("--burst", type=int, default=100_000)
    arguments.add_argument("--owners", type=int, nargs="*", default=(), help="other numbers of owners, such as 3 5")
    arguments.add_argument("--dapr-burst", type=int, default=10_000, help="jobs due at once beside Dapr's scheduler")
    arguments.add_argument("--held", type=int, default=1_000_000)
    arguments.add_argument("--week", type=int, default=0, help="overdue tasks, such as 200000; 0: left out")
    arguments.add_argument("--others", type=int, default=2_000, help="APScheduler's jobs")
    args = arguments.parse_args()
    args.alone = programs().scheduler.exists() and enter_namespace("bench.tasks", sys.argv[1:])
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, server() as url:
        print(about(["asyncpg", "aiohttp", "starlette", "grpcio", "apscheduler"]))
        print(f"command: python -m bench.tasks {' '.join(sys.argv[1:])}".rstrip())
        print(f"rounds {args.rounds}: median (least – most); load {psutil.getloadavg()[0]:.1f} when it began\n")
        result = runner.run(measure(url, args))
    print(f"\nRESULT {orjson.dumps(result).decode()}")


if __name__ == "__main__":
    main()
