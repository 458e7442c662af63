"""`python -m streamsched.runner RUN_ID`: the process that executes one run. A launcher starts it; it may outlive it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from streamsched.config import Settings
from streamsched.domain.errors import StreamschedError, UnavailableError
from streamsched.ports.clock import SystemClock
from streamsched.process.cancellation import cancel
from streamsched.spark.command import RunEnvironment
from streamsched.spark.runner import Runner, Timing
from streamsched.store.connections import open_pool
from streamsched.store.runs.run_store import PostgresRunStore
from streamsched.store.server.clock import PostgresClock
from streamsched.telemetry.logs import configure_logs

#: Attempts to connect to PostgreSQL, one second apart; then the launcher starts another runner.
_ATTEMPTS: Final = 60


async def execute(run: str, environ: Mapping[str, str]) -> None:
    """Executes the run with settings from `environ`; SIGTERM and SIGINT kill it.

    Raises:
        ConfigurationError: a setting is wrong.
        UnavailableError: PostgreSQL was unreachable for too long.
    """
    settings = Settings.from_env(environ)
    configure_logs(level=settings.log_level, style=settings.log_format)
    pool = await _pool(settings.database_url)
    clock = PostgresClock(pool, SystemClock())  # heartbeats are compared with the database's clock
    with suppress(UnavailableError):  # both the clock and the claim are retried
        await clock.compare()
    clock_task = asyncio.create_task(clock.run())
    try:
        runtime = RunEnvironment(
            data_dir=settings.data_dir.absolute(),
            spark_master=settings.spark_master,
            emit_url=settings.runs_emit_to(),
            environ=environ,
        )
        runner = Runner(PostgresRunStore(pool), clock, runtime, Timing(heartbeat=settings.heartbeat))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, runner.stop, f"its runner got {number.name}")
        await runner.execute(run)
    finally:
        await cancel(clock_task)
        pool.terminate()


async def _pool(dsn: str):
    for attempt in range(_ATTEMPTS):
        try:
            return await open_pool(dsn, min_size=1, max_size=2)
        except UnavailableError:
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(1.0)
    raise AssertionError("unreachable")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m streamsched.runner RUN_ID")
    try:
        asyncio.run(execute(sys.argv[1], os.environ))
    except StreamschedError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
