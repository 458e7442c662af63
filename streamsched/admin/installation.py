"""An installation as opened by administration commands: connects, but creates and migrates nothing.

Composition root of `admin`, as `roles` is for the processes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from streamsched.config import Settings
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.signals.layout import Layout
from streamsched.log.drivers import open_broker
from streamsched.log.generation import of_generation, read_layout
from streamsched.log.topics import topic_specs
from streamsched.ports.broker import Broker, TopicSpec
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.intake import ProgressStore
from streamsched.ports.leases import Leases
from streamsched.ports.notifier import Notifier
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.progress import PostgresProgress
from streamsched.store.connections import Pool, open_pool, require_sessions
from streamsched.store.jobs.imported_runs import ImportedRunStore
from streamsched.store.server.clock import PostgresClock
from streamsched.store.server.clock_judgements import ClockJudgements
from streamsched.store.server.leases import PostgresLeases
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.store.server.probe import DatabaseProbe, JobNumbers, OutboxRepair, PostgresArchivedLetters
from streamsched.store.server.reports import PostgresReportStore
from streamsched.store.server.revisions import revisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Open connections and stores of an installation.

    Attributes:
        log: the broker without a generation.
        broker: the broker in the log's current generation.
        specs: the required topics.
        clock: this machine's, which checks compare.
        revisions: schema revisions this release supports.
    """

    log: Broker
    broker: Broker
    leases: Leases
    progress: ProgressStore
    probe: DatabaseProbe
    archived_letters: PostgresArchivedLetters
    mending: OutboxRepair
    numbers: JobNumbers
    reader: CatalogReader
    reports: PostgresReportStore
    outbox: PostgresOutbox
    judgements: ClockJudgements
    notifier: Notifier
    imported_runs: ImportedRunStore
    clock: Clock
    specs: tuple[TopicSpec, ...]
    revisions: tuple[str, ...]


@asynccontextmanager
async def open_installation(settings: Settings) -> AsyncIterator[Installation]:
    """Opens the connections, and closes them after the block.

    Raises:
        ConfigurationError: a URL is wrong.
        UnavailableError: the database or the broker is unreachable.
    """
    async with AsyncExitStack() as stack:
        pool = await open_pool(settings.database_url, min_size=2, max_size=4)
        stack.callback(pool.terminate)
        await require_sessions(pool)
        notifier = PostgresNotifier(settings.database_url)
        stack.push_async_callback(notifier.close)
        log = await open_broker(settings.broker_url)
        stack.push_async_callback(log.close)
        time = PostgresClock(pool, SystemClock(), name="administration")
        with suppress(ConfigurationError):  # the schema is older than judgements about the clock
            await time.compare()
            log.keep_time(time)
        layout = await read_layout(log) or Layout(1, settings.shards, settings.shards)
        broker = of_generation(log, layout.generation)
        specs = topic_specs(
            settings.shards,
            settings.keep.log,
            horizon=settings.worker.dedupe_horizon,
            unkeyed_partitions=layout.unkeyed_partitions,
        )
        yield assemble(pool, notifier, SystemClock(), log=log, broker=broker, specs=specs)


def assemble(
    pool: Pool, notifier: Notifier, clock: Clock, *, log: Broker, broker: Broker, specs: tuple[TopicSpec, ...]
) -> Installation:
    """An installation on open connections."""
    return Installation(
        log=log,
        broker=broker,
        leases=PostgresLeases(pool),
        progress=PostgresProgress(pool),
        probe=DatabaseProbe(pool),
        archived_letters=PostgresArchivedLetters(pool),
        mending=OutboxRepair(pool),
        numbers=JobNumbers(pool),
        reader=CatalogReader(pool),
        reports=PostgresReportStore(pool),
        outbox=PostgresOutbox(pool),
        judgements=ClockJudgements(pool),
        notifier=notifier,
        imported_runs=ImportedRunStore(pool),
        clock=clock,
        specs=specs,
        revisions=revisions().newest,
    )
