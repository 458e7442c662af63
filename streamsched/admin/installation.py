"""An installation as an administrator's commands find it: opened as it is, nothing made and nothing migrated.

The composition root of this room, as `bootstrap` is of the roles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from streamsched.config import Settings
from streamsched.ports.bell import Bell
from streamsched.ports.broker import Broker, TopicSpec
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.drivers import open_broker
from streamsched.ports.topics import topic_specs
from streamsched.store.bell import PostgresBell
from streamsched.store.listing import PostgresCatalogReader
from streamsched.store.migrate import newest_revisions
from streamsched.store.outbox import PostgresOutbox
from streamsched.store.pool import open_pool
from streamsched.store.probe import PostgresMending, PostgresProbe, PostgresPutAway


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Its parts; `specs` are the topics it must have, `revisions` the schema this release is made for."""

    broker: Broker
    probe: PostgresProbe
    put_away: PostgresPutAway
    mending: PostgresMending
    reader: PostgresCatalogReader
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
        broker = await open_broker(settings.broker_url)
        held.push_async_callback(broker.close)
        yield Installation(
            broker=broker,
            probe=PostgresProbe(pool),
            put_away=PostgresPutAway(pool),
            mending=PostgresMending(pool),
            reader=PostgresCatalogReader(pool),
            outbox=PostgresOutbox(pool),
            bell=bell,
            clock=SystemClock(),
            specs=topic_specs(settings.shards, settings.retention),
            revisions=newest_revisions(),
        )
