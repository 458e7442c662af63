"""Periodic work of a launcher that belongs to no room: draining the spool of this host."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from streamsched.config import Settings
from streamsched.emit import drain

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
