"""The relay beside an API in the process of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamsched.process.cancellation import CLOSING_S, cancel
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import Services


@asynccontextmanager
async def relaying(services: Services) -> AsyncIterator[None]:
    """The relay runs, and with it what asks whether the log answers: without that the relay takes the log for lost
    after a minute, and leaves its role.
    """
    loops = launcher_loops(services, {})
    running = [asyncio.ensure_future(loops[each]()) for each in ("relay", "broker_health")]
    try:
        yield
    finally:
        await cancel(*running, retry_s=CLOSING_S)
