"""`python -m streamsched.roles.runner RUN_ID`: the process that executes one run. A launcher starts it; it may outlive
that one.

`python -m streamsched.roles.runner --fence RUN_ID`: writes the fence of a run that was given up.

`python -m streamsched.roles.runner --fork-server SOCKET`: a process from which such processes are forked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from streamsched.config import Settings
from streamsched.domain.errors import StreamschedError, UnavailableError
from streamsched.domain.programs.inherited_environment import InheritedEnvironment
from streamsched.ports.clock import SystemClock
from streamsched.process.cancellation import cancel
from streamsched.secrets.resolver import Secrets, find_installed
from streamsched.spark.command import ConnectSettings, RunEnvironment
from streamsched.spark.fences.fence_writer import FenceWriter
from streamsched.spark.needs.bundle_cache import BundleCache
from streamsched.spark.needs.preparation import Preparation
from streamsched.spark.runner import Runner, Timing
from streamsched.spark.warm.child import ProcessStarter
from streamsched.spark.warm.fork_server import serve
from streamsched.store.access.tokens import TokenStore
from streamsched.store.connections import Pool, open_pool
from streamsched.store.programs.bundles import BundleStore
from streamsched.store.programs.profiles import ProfileStore
from streamsched.store.runs.fences import FenceStore
from streamsched.store.runs.run_store import PostgresRunStore
from streamsched.store.server.clock import PostgresClock
from streamsched.telemetry.logs import configure_logs
from streamsched.telemetry.traces.settings import run_sampler

_T = TypeVar("_T")

#: Attempts to reach PostgreSQL, one second apart; then the launcher starts another runner.
_ATTEMPTS: Final = 60


async def execute(run: str, environ: Mapping[str, str], *, server: socket.socket | None = None) -> None:
    """Executes the run with settings from `environ`; SIGTERM and SIGINT kill it. `server`: the fork server.

    Raises:
        ConfigurationError: a setting is wrong.
        UnavailableError: PostgreSQL was unreachable for too long.
    """
    settings = Settings.from_env(environ)
    async with _database(settings) as (pool, clock):
        runtime, preparation = await _environment(settings, environ, pool), _preparation(settings, environ, pool)
        cold = "the fork server was not ready" if settings.runs.warm_starts else "STREAMSCHED_WARM_STARTS is false"
        timing, starter = Timing(heartbeat=settings.runs.heartbeat), ProcessStarter(server, cold=cold)
        store, limit = PostgresRunStore(pool), settings.runs.log_limit
        runner = Runner(store, clock, runtime, timing, starter=starter, preparation=preparation, log_limit=limit)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, runner.stop, f"its runner got {number.name}")
        await runner.execute(run)


async def fence(run: str, environ: Mapping[str, str]) -> None:
    """Writes the fence of a run that was given up.

    Raises:
        ConfigurationError, UnavailableError: as `execute`.
    """
    settings = Settings.from_env(environ)
    async with _database(settings) as (pool, clock):
        runtime, preparation = await _environment(settings, environ, pool), _preparation(settings, environ, pool)
        await FenceWriter(FenceStore(pool), clock, runtime, preparation).write(run)


@asynccontextmanager
async def _database(settings: Settings) -> AsyncIterator[tuple[Pool, PostgresClock]]:
    """The database, and its clock: heartbeats are compared with it."""
    configure_logs(level=settings.log.level, style=settings.log.format)
    pool = await _patiently(lambda: open_pool(settings.database_url, min_size=1, max_size=2, spans=settings.traces))
    clock = PostgresClock(pool, SystemClock(), name=f"runner {os.getpid()}")
    with suppress(UnavailableError):  # both the clock and the claim are retried
        await clock.compare()
    clock_task = asyncio.create_task(clock.run())
    try:
        yield pool, clock
    finally:
        await cancel(clock_task)
        pool.terminate()


def _preparation(settings: Settings, environ: Mapping[str, str], pool: Pool) -> Preparation:
    cache = BundleCache(
        BundleStore(pool), settings.data_dir.absolute() / "bundles", most_bytes=settings.programs.bundle_limit
    )
    secrets = Secrets(settings.programs.secrets, environ, find_installed())
    return Preparation(secrets, ProfileStore(pool), cache.folder)


async def _environment(settings: Settings, environ: Mapping[str, str], pool: Pool) -> RunEnvironment:
    inherited = InheritedEnvironment(environ, settings.programs.environment, settings.programs.secrets)
    return RunEnvironment(
        data_dir=settings.data_dir.absolute(),
        spark_master=settings.spark.master,
        emit_url=settings.emit_url,
        connect=ConnectSettings(
            url=settings.spark.connect,
            master=settings.spark.master,
            memory=settings.spark.connect_memory,
            runs=settings.spark.connect_runs,
            resident=settings.spark.connect_resident,
            idle_s=settings.spark.connect_idle.total_seconds(),
            metrics=settings.spark.metrics,
        ),
        environ=inherited.passed,
        withheld=inherited.withheld,
        users=settings.programs.run_as,
        proxy_users=settings.programs.proxy_user,
        spark_metrics=settings.spark.metrics,
        spark_event_logs=settings.spark.event_logs,
        prepared_drivers=settings.spark.prepared_drivers,
        sampler=run_sampler(environ, traces=settings.traces),
        signing_key=await _patiently(TokenStore(pool).key) if settings.api.access == "tokens" else b"",
    )


async def _patiently(call: Callable[[], Awaitable[_T]]) -> _T:
    for attempt in range(_ATTEMPTS):
        try:
            return await call()
        except UnavailableError:
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(1.0)
    raise AssertionError("unreachable")


def main() -> None:
    """The entry point of the process of a run: executes a run, fences one, or is the fork server of Python programs.
    Exits with the message of an error of ours.
    """
    match sys.argv[1:]:
        case ["--fork-server", socket_]:
            forked = serve(int(socket_), drivers=Settings.from_env(os.environ).spark.prepared_drivers)
            if forked is None:
                return
            run, server = forked
            work = execute(run, os.environ, server=server)
        case ["--fence", run]:
            work = fence(run, os.environ)
        case [run]:
            work = execute(run, os.environ)
        case _:
            sys.exit("usage: python -m streamsched.roles.runner RUN_ID")
    try:
        asyncio.run(work)
    except StreamschedError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
