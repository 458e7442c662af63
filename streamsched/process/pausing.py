"""A pause that an event ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def pause(wake: asyncio.Event, seconds: float) -> None:
    """Returns when `wake` is set, or after `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wake.wait()
