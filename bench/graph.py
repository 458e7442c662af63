"""Benchmark of graphs: nodes per second through the whole queue, beside luigi and doit on the same chains.

    make bench NAME=graph           python -m bench.graph --nodes 10000 --rounds 3

Through the queue: a chain of ten tasks, whose last is asked for, for many job ids at once; measured from the submission
until every node is stored as COMPLETED. Launcher processes decide the nodes' jobs, execute them, store their ends and
move the nodes, as in an installation, with complete history. The programs are of kind `publish`, which launchers
execute inline; Spark and bash would add the cost of a process.

`cost_1m_over_1k`: the same, per node, with 1,000,000 nodes of the same tasks in the table, and with 1,000, in turns.
Half of them wait and half are completed.

`fan_out_10k_s`: from the stored end of one run until its 10,000 children have their jobs. `fan_in_10k_s`: from the
stored ends of 10,000 runs until their one child has its job. `ready_100k_s` (with --ready): one submission of 100,000
nodes without parents; `ready_100k_nodes_per_s`: their jobs, from then until all are completed.

luigi (`rival_nodes_per_s`) runs the same chains in one process with its local scheduler, doit in one process with its
own; what is done is a flag in memory, and nothing survives a kill. luigi slows down with the number of nodes, so it
gets fewer (`--slow`); `nodes_per_s_as_rival` is the queue with as many. doit is a build tool: it sorts its tasks and
calls them, without a scheduler.
Compare numbers of one run only; on a shared machine two runs differ.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import logging
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
import orjson
import structlog
import uvloop
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

from bench.installation import about, server
from bench.launch_queue import DONE, make
from streamsched import __version__
from streamsched.codec.graph.task import tasks_from_json
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.graph.node import NodeState
from streamsched.domain.graph.release import node_trigger, schedule_of
from streamsched.domain.graph.task import NodeId
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Program, PublishJob, Schedule
from streamsched.graph.progression import Progression
from streamsched.graph.submission import GraphDesk
from streamsched.ports.clock import SystemClock
from streamsched.process.memory import configure_memory
from streamsched.store.connections import open_pool
from streamsched.store.graph.nodes import NodeStore
from streamsched.store.server.migrate import migrate
from streamsched.store.server.notifier import PostgresNotifier

LENGTH: Final = 10
LUIGI: Final = "3.8.1"
WIDTH: Final = 10_000
READY: Final = 100_000
#: The app of the chains, and that of wide graphs.
CHAINS: Final = AppRef("default", "chains")
WIDE: Final = AppRef("default", "wide")
_CHAIN: Final[dict[str, Any]] = {
    f"t{n}": {"job_id": "{id}", **({"depends_on": {"task": [f"t{n - 1}"]}} if n else {})} for n in range(LENGTH)
}
_FILL: Final = {"n": str(WIDTH)}
_WIDE: Final[dict[str, Any]] = {
    "one": {"job_id": "{d}"},
    "many": {"job_id": "{d}_{n}", "depends_on": {"task": ["one"]}, "autofill_values": _FILL},
    "side": {"job_id": "{d}_{n}", "autofill_values": _FILL},
    "last": {"job_id": "{d}", "depends_on": {"task": ["side"], "n": "all"}},
    "alone": {"job_id": "{d}"},
}
#: Nodes that are in the table and have nothing to do.
_HOLD: Final = """
INSERT INTO graph_nodes (app, task, job_id, state, reported, groups, round, again, generation, reason, created_at,
    changed_at)
SELECT $1, 't' || 1 + n % 9, 'held-' || n / 9, CASE WHEN n % 2 = 0 THEN 'WAITING' ELSE 'COMPLETED' END,
    CASE WHEN n % 2 = 0 THEN 'missing' ELSE 'complete' END, ARRAY[0, 1 - n % 2, 0, 0],
    0, false, 1, '', now(), now()
FROM generate_series(1, $2::bigint) n
"""
#: Runs of jobs that wait, ended by hand: as a launcher leaves them.
_RUNS: Final = """
WITH launched AS (
    UPDATE jobs SET state = 'LAUNCHED', next_check_at = NULL, ended_at = now() WHERE schedule = $1 RETURNING id, program
)
INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, runner)
SELECT id || '.1', id, 1, program, '{}', '{}', 'RUNNING', now(), 'a:1:1' FROM launched
"""
_END: Final = "UPDATE runs SET state = 'COMPLETED', ended_at = now() WHERE state = 'RUNNING'"


async def launcher(url: str) -> None:
    """One launcher process: prints `ready`, and runs until it is killed."""
    pool, bell = await open_pool(url, min_size=4), PostgresNotifier(url)
    inline, deciding = make(pool, bell)
    progression = Progression(NodeStore(pool), bell, SystemClock())
    print("ready", flush=True)
    await asyncio.gather(deciding.run(), inline.run(), progression.run())


@asynccontextmanager
async def launchers(url: str, count: int) -> AsyncIterator[None]:
    """Launcher processes, until the block ends."""
    children = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.graph", "--launcher", url), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(count)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            await child.stdout.readline()
        yield
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


class Graphs:
    """A migrated database with the graphs of this benchmark."""

    def __init__(self, url: str, pool: asyncpg.Pool) -> None:
        self.url = url
        self.pool = pool
        self.store = NodeStore(pool)
        self.desk = GraphDesk(self.store, SystemClock())

    async def define(self, app: AppRef, tasks: dict[str, Any]) -> None:
        """Stores the tasks, their schedules and programs."""
        now, found = datetime.now(UTC), tasks_from_json(tasks)
        await self.pool.execute("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
        await self.pool.execute("INSERT INTO apps VALUES ($1, 'default', $2, $2)", str(app), now)
        for task in found:
            program = Program(ProgramRef(app.namespace, app.app, task.name), PublishJob(DONE))
            known = Schedule(schedule_of(app, task.name), program.ref, node_trigger(app, task), overlap=Overlap.QUEUE)
            await self.pool.execute(
                "INSERT INTO programs VALUES ($1, $2, $3, $4, $4)",
                *(str(program.ref), str(app), program_to_json(program), now),
            )
            await self.pool.execute(
                "INSERT INTO schedules VALUES ($1, $2, $3, $4, 1, true, $5, $5)",
                *(str(known.ref), str(app), str(program.ref), schedule_to_json(known), now),
            )
        await self.store.put(app, found, now=now)

    async def hold(self, nodes: int) -> None:
        """Nodes of the chains that have nothing to do."""
        await self.pool.execute(_HOLD, str(CHAINS), nodes, timeout=600)
        await self.pool.execute("VACUUM ANALYZE", timeout=600)

    async def chains(self, count: int) -> float:
        """Seconds for `count` chains, from their submission until all their nodes are completed."""
        ids = [f"{uuid4().hex[:12]}-{n}" for n in range(count)]
        started = time.perf_counter()
        await self.desk.submit(CHAINS, [NodeId(f"t{LENGTH - 1}", each) for each in ids])
        await self._rest(600)
        seconds = time.perf_counter() - started
        done = (
            "SELECT count(*) FROM graph_nodes WHERE app = $1 AND task = $2 AND job_id = ANY($3) AND state = 'COMPLETED'"
        )
        assert await self.pool.fetchval(done, str(CHAINS), f"t{LENGTH - 1}", ids) == count
        return seconds

    async def fan_out(self) -> float:
        """Seconds from the stored end of one run until its children have their jobs."""
        day = uuid4().hex[:8]
        await self.desk.submit(WIDE, [NodeId("one", day)])
        await self._start("one")
        await self.pool.execute(_END)
        return await self._time(lambda: self._ready("many", WIDTH))

    async def fan_in(self) -> float:
        """Seconds from the stored ends of many runs until their child has its job."""
        day = uuid4().hex[:8]
        await self.desk.submit(WIDE, [NodeId("last", day)])
        await self._start("side")
        await self.pool.execute(_END)
        return await self._time(lambda: self._ready("last", 1))

    async def ready(self, launching: int) -> tuple[float, float]:
        """Seconds for one submission of nodes that are ready at once, and from then until all are completed."""
        tag = uuid4().hex[:8]
        started = time.perf_counter()
        plan = await self.desk.submit(WIDE, [NodeId("alone", f"{tag}-{n}") for n in range(READY)])
        submitted = time.perf_counter()
        assert plan.jobs == READY
        async with launchers(self.url, launching):
            await self._rest(600)
        ended = time.perf_counter()
        counts = await self.desk.counts(WIDE)
        assert counts == {("alone", NodeState.COMPLETED): READY}, counts
        await self._clear()
        return submitted - started, ended - submitted

    async def _rest(self, within_s: float) -> None:
        """Until no node is queued or has changes that its children have to count."""
        async with asyncio.timeout(within_s):
            while await self.pool.fetchval(
                "SELECT EXISTS (SELECT FROM graph_nodes WHERE state = 'QUEUED') "
                "OR EXISTS (SELECT FROM graph_nodes WHERE unreported)"
            ):
                await asyncio.sleep(0.05)

    async def _time(self, done: Callable[[], Awaitable[bool]]) -> float:
        bell = PostgresNotifier(self.url)
        progression = Progression(self.store, bell, SystemClock())
        started = time.perf_counter()
        while await progression.run_once():
            pass
        seconds = time.perf_counter() - started
        assert await done()
        await bell.close()
        await self._clear()
        return seconds

    async def _ready(self, task: str, count: int) -> bool:
        queued = "SELECT count(*) FROM jobs WHERE schedule = $1 AND state = 'PENDING_CONSTRAINT'"
        return await self.pool.fetchval(queued, str(schedule_of(WIDE, task))) == count

    async def _start(self, task: str) -> None:
        await self.pool.execute(_RUNS, str(schedule_of(WIDE, task)))
        await self.pool.execute("ANALYZE")

    async def _clear(self) -> None:
        await self.pool.execute("DELETE FROM runs")
        await self.pool.execute("DELETE FROM jobs")
        await self.pool.execute("DELETE FROM graph_nodes WHERE job_id NOT LIKE 'held-%'")
        await self.pool.execute("VACUUM ANALYZE", timeout=600)


@asynccontextmanager
async def fresh(url: str) -> AsyncIterator[Graphs]:
    """An empty installation."""
    name = f"graph_{uuid4().hex[:8]}"
    admin = await asyncpg.connect(url)
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    own = url.replace("/postgres?", f"/{name}?")
    await asyncio.to_thread(migrate, own)
    pool = await open_pool(own)
    made = Graphs(own, pool)
    await made.define(CHAINS, _CHAIN)
    await made.define(WIDE, _WIDE)
    try:
        yield made
    finally:
        await pool.close()


class Luigi:
    """luigi in an environment of its own, because its dependencies are not those of this project."""

    def __init__(self, folder: Path) -> None:
        self._python = folder / "bin" / "python"
        venv.create(folder, with_pip=True)
        self._call("-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"luigi=={LUIGI}")

    def __call__(self, nodes: int) -> float:
        """Seconds of luigi for as many nodes."""
        return float(self._call(str(Path(__file__).with_name("luigi_chains.py")), str(nodes), str(LENGTH)))

    def _call(self, *arguments: str) -> str:
        command = (str(self._python), *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def of_doit(nodes: int) -> float:
    """Seconds of doit for as many nodes."""
    done: set[str] = set()

    def mark(name: str) -> None:
        done.add(name)

    def task_link() -> Any:
        for chain in range(nodes // LENGTH):
            for number in range(LENGTH):
                name = f"{chain}-{number}"
                yield {
                    "name": name,
                    "actions": [(mark, (name,))],
                    "task_dep": [f"link:{chain}-{number - 1}"] if number else [],
                }

    with tempfile.TemporaryDirectory(prefix="ss-doit-") as folder:
        settings = {"dep_file": str(Path(folder) / "doit.db"), "reporter": "zero", "verbosity": 0}
        loader = ModuleTaskLoader({"task_link": task_link, "DOIT_CONFIG": settings})
        started = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            code = DoitMain(loader).run([])
        seconds = time.perf_counter() - started
    assert (code, len(done)) == (0, nodes), (code, len(done))
    return seconds


def show(name: str, found: Sequence[float], unit: str) -> float:
    """The median; prints a line with the spread."""
    low, high, middle = min(found), max(found), statistics.median(found)
    digits = 0 if middle >= 100 else 3
    print(f"{name:<44} {middle:>10,.{digits}f} {unit}   ({low:,.{digits}f} – {high:,.{digits}f})", flush=True)
    return middle


async def compare(url: str, args: argparse.Namespace, luigi: Callable[[int], float]) -> dict[str, float]:
    """Measures all, in turns."""
    chains, rounds = args.nodes // LENGTH, range(args.rounds)
    result: dict[str, float] = {}
    rates: dict[str, list[float]] = {"as many": [], "luigi": [], "doit": []}
    async with fresh(url) as small, fresh(url) as large:
        result["fan_out_10k_s"] = show("1 → 10,000", [await small.fan_out() for _ in rounds], "s")
        result["fan_in_10k_s"] = show("10,000 → 1", [await small.fan_in() for _ in rounds], "s")
        if args.ready:
            submitting, draining = await small.ready(args.launchers)
            result["ready_100k_s"] = show("100,000 ready at once, submitted", [submitting], "s")
            result["ready_100k_nodes_per_s"] = show("100,000 ready at once, run", [READY / draining], "nodes/s")
        few, many = [], []
        await small.hold(1_000)
        await large.hold(args.held)
        for each in (small, large):
            async with launchers(each.url, args.launchers):
                await each.chains(chains)  # without history, plans would be for empty tables
        for _ in rounds:
            for graphs, taken in ((small, few), (large, many)):
                await graphs.pool.execute("VACUUM ANALYZE", timeout=600)
                async with launchers(graphs.url, args.launchers):
                    taken.append(await graphs.chains(chains))
            async with launchers(small.url, args.launchers):
                rates["as many"].append(args.slow / await small.chains(args.slow // LENGTH))
            rates["luigi"].append(args.slow / luigi(args.slow))
            rates["doit"].append(args.slow / of_doit(args.slow))
    nodes = chains * LENGTH
    result["nodes_per_s"] = show("through the queue, 1,000 held", [nodes / each for each in few], "nodes/s")
    held = show(f"through the queue, {args.held:,} held", [nodes / each for each in many], "nodes/s")
    result["cost_1m_over_1k"] = result["nodes_per_s"] / held
    result["nodes_per_s_as_rival"] = show(f"through the queue, {args.slow:,} nodes", rates["as many"], "nodes/s")
    result["rival_nodes_per_s"] = show("luigi", rates["luigi"], "nodes/s")
    result["doit_nodes_per_s"] = show("doit", rates["doit"], "nodes/s")
    return result


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; the last line is RESULT with the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--slow", type=int, default=2_000, help="nodes for luigi and doit")
    parser.add_argument("--held", type=int, default=1_000_000)
    parser.add_argument("--ready", action="store_true", help="also run 100,000 nodes that are ready at once")
    parser.add_argument("--launchers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--launcher", metavar="URL", help="run one launcher process (internal)")
    args = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.WARNING)
    configure_memory()
    if args.launcher:
        uvloop.run(launcher(args.launcher))
        return
    print(f"machine  {about(('doit', 'asyncpg'))}, luigi {LUIGI}, streamsched {__version__}")
    print(f"command  python -m bench.graph {' '.join(sys.argv[1:] if argv is None else argv)}".rstrip())
    print(f"rounds   {args.rounds}; median (spread)\n", flush=True)
    with server() as url, tempfile.TemporaryDirectory(prefix="ss-luigi-") as folder:
        results = uvloop.run(compare(url, args, Luigi(Path(folder))))
    print("RESULT " + orjson.dumps({name: round(value, 3) for name, value in results.items()}).decode())


if __name__ == "__main__":
    main()
