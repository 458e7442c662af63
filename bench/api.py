"""Benchmark of the API: how many requests a second one process answers, how long they take, and what tokens cost.

    make bench NAME=api             python -m bench.api --schedules 10000 --events 3000 --rounds 3

Two API processes with one database, which also has the log: one asks for tokens, one is open. A client in this process
sends to one and to the other in turn, round after round, over sockets of this machine.

- `emit_per_s`, `emit_p99_ms`: single events by 16 clients at a time, each acknowledged by the log.
- `emit_500_per_s`: events a second in lists of 500, by 4 clients.
- `create_p99_ms`: schedules made one after another, each acknowledged by the log.
- `list_10k_ms`: all schedules in pages of 1,000.
- `auth_cost`: CPU time of the process for a single event with a token, over that of the open one.

The measures are those with tokens; `open` has the same without. Each is the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
import asyncpg
import orjson
import psutil
import structlog
import uvloop

from bench.installation import about, server
from streamsched.api.app import make_api
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.codec import event as event_codec
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.config import Settings
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.triggers.trigger import Partitions
from streamsched.process.memory import configure_memory, freeze_objects
from streamsched.process.supervision import supervise
from streamsched.roles.access import create_token_directly
from streamsched.roles.api import api_services
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import open_services
from streamsched.store.server.migrate import migrate

BATCH: Final = 500
CLIENTS: Final = 16
BATCH_CLIENTS: Final = 4
PAGE: Final = 1000
#: In place of the access of an API: the process that a launcher is, of which only the relay is needed.
RELAY: Final = "relay"
_PROGRAM: Final = Program(ProgramRef("default", "bench", "noop"), BashJob("true"))
_FILL: Final = (
    ("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", ()),
    ("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1) ON CONFLICT DO NOTHING", ()),
)


@dataclass(frozen=True, slots=True)
class Target:
    """An API process, and a client that sends its token."""

    process: psutil.Process
    client: aiohttp.ClientSession
    name: str

    def cpu(self) -> float:
        """Seconds of CPU it has used."""
        used = self.process.cpu_times()
        return used.user + used.system

    async def request(self, method: str, path: str, body: bytes | None = None) -> Any:
        """The decoded answer.

        Raises:
            RuntimeError: it is no success.
        """
        async with self.client.request(method, path, data=body) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
            return orjson.loads(text)


async def serve(database: str, access: str) -> None:
    """An API, or a relay, until its input ends, with the product's settings of memory. Prints a line when it is ready:
    the API its URL.
    """
    configure_memory()
    if access == RELAY:
        async with open_services(Settings.from_env({}, database_url=database)) as services:
            print(RELAY, flush=True)
            loops = launcher_loops(services, {})

            async def relay() -> None:  # who does not ask whether the log answers leaves the role to others
                await asyncio.gather(loops["relay"](), loops["broker_health"]())

            await until_end_of_input(relay())
        return
    bound = bind("127.0.0.1", 0)
    async with open_services(
        Settings.from_env({}, database_url=database, api_host="127.0.0.1", api_access=access)
    ) as services:
        api = HttpServer(make_api(api_services(services)), bound, started=lambda: print(url_of(bound), flush=True))
        freeze_objects()  # as a role does
        await until_end_of_input(supervise({"api": api.run}, metrics=services.health.metrics))


async def until_end_of_input(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    await asyncio.to_thread(sys.stdin.read)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def start(database: str, access: str) -> tuple[subprocess.Popen[str], str]:
    """A process that serves the API, and its URL."""
    command = [sys.executable, "-m", "bench.api", "--serve", database, "--access", access]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


async def fill(database: str, schedules: int) -> None:
    """Stores an app with disabled schedules on datasets of their own."""
    now = datetime.now(UTC)
    shape = Schedule(ScheduleRef("default", "bench", "s"), _PROGRAM.ref, Partitions(DatasetRef("default", "other"), 7))
    connection = await asyncpg.connect(database)
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=lambda value: orjson.dumps(value).decode(), decoder=orjson.loads
    )
    for statement, more in _FILL:
        await connection.execute(statement, now, *more)
    await connection.execute(
        "INSERT INTO programs VALUES ('default.bench.noop', 'default.bench', $1, $2, $2)",
        *(program_to_json(_PROGRAM), now),
    )
    await connection.execute(
        "INSERT INTO schedules SELECT 'default.bench.s' || n, 'default.bench', 'default.bench.noop',"
        " jsonb_set($3, '{name}', to_jsonb('s' || n)), 1, false, $2, $2 FROM generate_series(0, $1::int - 1) n",
        *(schedules, now, schedule_to_json(shape)),
    )
    await connection.execute("ANALYZE")
    await connection.close()


def event(number: int) -> bytes:
    fact = PartitionsAdded(DatasetRef("default", f"d{number % 100}"), (Partition(f"day={number}"),), 1)
    return event_codec.encode(Event(f"e{number}", "bench", datetime.now(UTC), fact))


async def spread(clients: int, items: Sequence[Any], send: Callable[[Any], Awaitable[None]]) -> list[float]:
    """Sends every item, `clients` at a time. Returns the seconds that each took, ascending."""
    waiting, took = iter(items), []

    async def client() -> None:
        for item in waiting:
            began = time.perf_counter()
            await send(item)
            took.append(time.perf_counter() - began)

    await asyncio.gather(*(client() for _ in range(clients)))
    return sorted(took)


def p99_ms(ascending: Sequence[float]) -> float:
    return 1000 * ascending[math.ceil(0.99 * len(ascending)) - 1]


async def one_round(target: Target, first: int, events: int, created: int) -> dict[str, float]:
    """The measures of one process; ids and names begin with the number `first`."""

    async def emit(number: int) -> None:
        await target.request("POST", "/v1/events?check=none", event(number))

    async def emit_many(start: int) -> None:
        await target.request(
            "POST", "/v1/events?check=none", b"[" + b",".join(event(n) for n in range(start, start + BATCH)) + b"]"
        )

    async def create(number: int) -> None:
        trigger = {"type": "PARTITION", "dataset": f"made{number}", "numPartitions": 7}
        body = {"application": "bench", "name": f"made{number}", "program": "noop", "trigger": trigger}
        await target.request("POST", "/v1/schedules", orjson.dumps(body))

    found: dict[str, float] = {}
    used, began = target.cpu(), time.perf_counter()
    took = await spread(CLIENTS, range(first, first + events), emit)
    found["emit_per_s"] = events / (time.perf_counter() - began)
    found["emit_p50_ms"], found["emit_p99_ms"] = 1000 * statistics.median(took), p99_ms(took)
    found["emit_cpu_ms"] = 1000 * (target.cpu() - used) / events
    starts = range(first + events, first + events + 10 * BATCH * BATCH_CLIENTS, BATCH)
    began = time.perf_counter()
    await spread(BATCH_CLIENTS, starts, emit_many)
    found["emit_500_per_s"] = len(starts) * BATCH / (time.perf_counter() - began)
    took = await spread(1, range(first, first + created), create)
    found["create_p50_ms"], found["create_p99_ms"] = 1000 * statistics.median(took), p99_ms(took)
    began, after, listed = time.perf_counter(), "", 0
    while after is not None:
        page = await target.request("GET", f"/v1/schedules?namespace=default&limit={PAGE}&after={after}")
        listed, after = listed + len(page["schedules"]), page.get("next")
    found["list_10k_ms"] = 1000 * (time.perf_counter() - began) * 10_000 / listed
    return found


async def measure(database: str, schedules: int, events: int, created: int, rounds: int) -> dict[str, Any]:
    await asyncio.to_thread(migrate, database)
    await fill(database, schedules)
    token = (await create_token_directly(database, {"name": "bench", "grants": [{"role": "admin"}]}, by="bench"))[
        "text"
    ]
    found: dict[str, dict[str, list[float]]] = {"tokens": defaultdict(list), "open": defaultdict(list)}
    with ExitStack() as processes:
        targets: list[Target] = []
        relay, _ = await asyncio.to_thread(start, database, RELAY)
        processes.enter_context(relay)
        for access, headers in (("tokens", {"Authorization": f"Bearer {token}"}), ("open", {})):
            process, url = await asyncio.to_thread(start, database, access)
            processes.enter_context(process)
            client = aiohttp.ClientSession(
                url,
                headers={"Content-Type": "application/json", **headers},
                connector=aiohttp.TCPConnector(keepalive_timeout=2),  # the server closes idle connections after 5
            )
            targets.append(Target(psutil.Process(process.pid), client, access))
        try:
            for target in targets:  # connections, statements, code that is read at its first use
                await one_round(target, 90_000_000 + 1000 * targets.index(target), 200, 10)
            number = 0
            for turn in range(rounds):
                for target in targets if turn % 2 == 0 else reversed(targets):
                    for name, value in (await one_round(target, number, events, created)).items():
                        found[target.name][name].append(value)
                    number += 10 * (events + 10 * BATCH * BATCH_CLIENTS)
        finally:
            for target in targets:
                await target.client.close()
    costs = [a / b for a, b in zip(found["tokens"]["emit_cpu_ms"], found["open"]["emit_cpu_ms"], strict=True)]
    for name in found["tokens"]:
        rows = {access: "  ".join(f"{value:9.2f}" for value in found[access][name]) for access in found}
        print(f"{name:>16}  tokens {rows['tokens']}   open {rows['open']}")
    halves = {
        access: {name: round(statistics.median(values), 2) for name, values in each.items()}
        for access, each in found.items()
    }
    return {
        **halves["tokens"],
        "auth_cost": round(statistics.median(costs), 3),
        "auth_costs": [round(each, 3) for each in costs],
        "open": halves["open"],
        "schedules": schedules,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--schedules", type=int, default=10_000)
    arguments.add_argument("--events", type=int, default=3000, help="single events of a round")
    arguments.add_argument("--created", type=int, default=200, help="schedules made in a round")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--serve", metavar="DATABASE", help=argparse.SUPPRESS)
    arguments.add_argument("--access", default="tokens", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(40), logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if args.serve:
            runner.run(serve(args.serve, args.access))
            return
        with server() as url:
            print(about(["starlette", "uvicorn", "asyncpg", "orjson"]))
            print(f"command: python -m bench.api {' '.join(sys.argv[1:])}".rstrip())
            print(f"load {psutil.getloadavg()[0]:.1f} when it began\n")
            result = runner.run(measure(url, args.schedules, args.events, args.created, args.rounds))
    print(f"\nRESULT {orjson.dumps(result).decode()}")


if __name__ == "__main__":
    main()
