"""Benchmark of starts: seconds from the start of a runner until the end of its run is stored, cold and warm, in turns.

    make bench NAME=warm_starts        python -m bench.warm_starts --runs 20

A run of a Python program whose function returns at once, by real runner processes on PostgreSQL, one run at a time. So
a time is the start of the runner, the start of the program's process with its imports, and six statements. `plain`
imports what Python brings, `numpy` a library. Compare numbers of one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import asyncpg
import orjson
import uvloop

from bench.graph import show
from bench.installation import about, fresh_installation, server
from streamsched import __version__
from streamsched.codec.schedules.schedule import program_to_json
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.process_job import PythonJob
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.clock import SystemClock
from streamsched.spark.processes import LocalRunners
from streamsched.store.runs.run_queries import RunQueries

_MODULES: Final = {"plain": "import asyncio, decimal, email.message, http.client, xml.dom", "numpy": "import numpy"}
_KINDS: Final = ("cold", "warm")


class Site:
    """A database, a folder with programs, and runners of both kinds."""

    def __init__(self, url: str, pool: asyncpg.Pool, folder: Path) -> None:
        environ = {**os.environ, "STREAMSCHED_DATABASE_URL": url, "STREAMSCHED_DATA_DIR": str(folder)}
        cold = {**environ, "STREAMSCHED_WARM_STARTS": "false"}
        self.runners = {"cold": LocalRunners(folder, cold), "warm": LocalRunners(folder, environ, warm=True)}
        self._pool = pool
        self._folder = folder
        self._runs = RunQueries(pool)
        self._clock = SystemClock()
        self._number = 0

    async def define(self) -> None:
        """Stores the programs."""
        now = self._clock.now()
        await self._pool.execute("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
        await self._pool.execute("INSERT INTO apps VALUES ('default.warm', 'default', $1, $1)", now)
        for name, imports in _MODULES.items():
            (self._folder / f"of_{name}.py").write_text(f"{imports}\n\ndef do():\n    pass\n")
            program = Program(self._ref(name), PythonJob(f"of_{name}:do", folder=str(self._folder)))
            await self._pool.execute(
                "INSERT INTO programs VALUES ($1, 'default.warm', $2, $3, $3)",
                *(str(program.ref), program_to_json(program), now),
            )

    async def seconds(self, name: str, kind: str) -> tuple[float, str]:
        """Of one run, and how it was started."""
        self._number += 1
        token, now = f"n{self._number}", self._clock.now()
        run = await self._runs.start(self._ref(name), {}, token=token, at_most=None, force=True, now=now)
        began = time.perf_counter()
        self.runners[kind].spawn(run)
        async with asyncio.timeout(60):
            while not (found := await self._runs.get(run)).state.is_terminal:
                await asyncio.sleep(0.002)
        taken = time.perf_counter() - began
        assert found.exit_code == 0, found
        return taken, found.start or ""

    def _ref(self, name: str) -> ProgramRef:
        return ProgramRef("default", "warm", name)


async def compare(url: str, folder: Path, runs: int) -> dict[str, float]:
    """Measures all, in turns."""
    result: dict[str, float] = {}
    async with fresh_installation(url) as installation:
        site = Site(installation.url, installation.pool, folder)
        await site.define()
        for name in _MODULES:
            while (await site.seconds(name, "warm"))[1] != "warm":  # until a run has reported its libraries
                await asyncio.sleep(0.2)
            found: dict[str, list[float]] = {kind: [] for kind in _KINDS}
            for _ in range(runs):
                for kind in _KINDS:
                    taken, how = await site.seconds(name, kind)
                    assert how.startswith(kind), how
                    found[kind].append(taken)
            for kind in _KINDS:
                show(f"{name}, {kind}", found[kind], "s")
                result[f"{kind}_{name}_s"] = statistics.median(found[kind])
            result[f"{name}_cold_over_warm"] = result[f"cold_{name}_s"] / result[f"warm_{name}_s"]
    return result


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; the last line is RESULT with the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    args = parser.parse_args(argv)
    print(f"machine  {about(('asyncpg', 'numpy'))}, streamsched {__version__}")
    print(f"command  python -m bench.warm_starts {' '.join(sys.argv[1:] if argv is None else argv)}".rstrip())
    print(f"runs     {args.runs} of each; median (spread)\n", flush=True)
    with server() as url, tempfile.TemporaryDirectory(prefix="ss-warm-") as folder:
        results = uvloop.run(compare(url, Path(folder), args.runs))
    print("RESULT " + orjson.dumps({name: round(value, 3) for name, value in results.items()}).decode())


if __name__ == "__main__":
    main()
