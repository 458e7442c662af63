"""Periodic work of a launcher that belongs to no room: draining the spool of this host, and what deletes old nodes and
files of runs.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from streamsched.config import Settings
from streamsched.emit import drain
from streamsched.graph.retention import NodeRetention
from streamsched.launcher.log_cleanup import LogCleanup
from streamsched.ports.clock import Clock
from streamsched.spark.run_file_store import LocalRunFileStore
from streamsched.store.connections import Pool
from streamsched.store.graph.nodes import PostgresNodeStore
from streamsched.store.jobs.archive import PostgresArchive

log = structlog.get_logger()

#: Seconds between two drains of the spool of this host's runs.
_SPOOL_S: Final = 5.0


async def drain_spool(settings: Settings) -> float:
    """Sends spooled events of this host's runs. Returns the seconds until the next call."""
    spool = settings.data_dir / "spool"
    if spool.exists():
        drained = await asyncio.to_thread(drain, spool, settings.broker_url)
        if drained.sent or drained.refused or drained.left:
            log.info("spool.drained", sent=drained.sent, refused=drained.refused, left=drained.left)
    return _SPOOL_S


def node_retention(pool: Pool, clock: Clock, settings: Settings) -> NodeRetention:
    """Deletes nodes that ended longer ago than the settings say."""
    return NodeRetention(PostgresNodeStore(pool), clock, keep=settings.nodes_keep)


def log_cleanup(pool: Pool, clock: Clock, settings: Settings) -> LogCleanup:
    """Deletes this host's files of runs that ended longer ago than the settings say."""
    files = LocalRunFileStore(settings.data_dir.absolute())
    return LogCleanup(files, PostgresArchive(pool), clock, keep=settings.jobs_keep)
