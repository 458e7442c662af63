"""An installation as an administrator's commands find it: opened as it is, nothing made and nothing migrated.

The composition root of this room, as `bootstrap` is of the roles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from streamsched.config import Settings
from streamsched.domain.layout import Layout
from streamsched.ports.bell import Bell
from streamsched.ports.broker import Broker, TopicSpec
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.drivers import open_broker
from streamsched.ports.generation import of_generation, read_layout
from streamsched.ports.leases import Leases
from streamsched.ports.progress import Restartable
from streamsched.ports.topics import topic_specs
from streamsched.store.bell import PostgresBell
from streamsched.store.leases import PostgresLeases
from streamsched.store.listing import PostgresCatalogReader
from streamsched.store.migrate import newest_revisions
from streamsched.store.outbox import PostgresOutbox
from streamsched.store.pool import open_pool
from streamsched.store.probe import PostgresMending, PostgresNumbers, PostgresProbe, PostgresPutAway
from streamsched.store.progress import PostgresProgress
from streamsched.store.reports import PostgresReports


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Its parts.

    Attributes:
        log: as it is, in no generation.
        broker: the log in its current generation.
        specs: the topics it must have.
        revisions: of the schema this release is made for.
    """

    log: Broker
    broker: Broker
    leases: Leases
    progress: Restartable
    probe: PostgresProbe
    put_away: PostgresPutAway
    mending: PostgresMending
    numbers: PostgresNumbers
    reader: PostgresCatalogReader
    reports: PostgresReports
    outbox: PostgresOutbox
    bell: Bell
    clock: Clock
    specs: tuple[TopicSpec, ...]
    revisions: tuple[str, ...]


@asynccontextmanager
async def open_installation(settings: Settings) -> AsyncIterator[Installation]:
    """Opens connections; closes them at the end.

    Raises:
        ConfigurationError: a URL is wrong.
        UnavailableError: the database or the broker is away.
    """
    async with AsyncExitStack() as held:
        pool = await open_pool(settings.database_url, min_size=1, max_size=4)
        held.callback(pool.terminate)
        bell = PostgresBell(settings.database_url)
        held.push_async_callback(bell.close)
        log = await open_broker(settings.broker_url)
        held.push_async_callback(log.close)
        layout = await read_layout(log) or Layout(1, settings.shards, settings.shards)
        broker = of_generation(log, layout.generation)
        yield Installation(
            log=log,
            broker=broker,
            leases=PostgresLeases(pool),
            progress=PostgresProgress(pool),
            probe=PostgresProbe(pool),
            put_away=PostgresPutAway(pool),
            mending=PostgresMending(pool),
            numbers=PostgresNumbers(pool),
            reader=PostgresCatalogReader(pool),
            reports=PostgresReports(pool),
            outbox=PostgresOutbox(pool),
            bell=bell,
            clock=SystemClock(),
            specs=topic_specs(settings.shards, settings.retention, outlets=layout.outlets),
            revisions=newest_revisions(),
        )
